"""The simple assignor of share groups: every partition has a reader, and every reader a partition."""

from __future__ import annotations

from collections.abc import Mapping
from time import process_time
from uuid import UUID

from hypothesis import given
from tests.coordination.assignors.assignor_groups import (
    TOPICS,
    check_only_subscribers_read,
    equal_subscriptions,
    group,
    moved,
    partition_counts,
    partitions_of,
    readers,
    subscriptions,
    to_be_read,
)

from catchment.coordination.assignors import simple
from catchment.coordination.assignors.assignor import Assignor

Subscriptions = Mapping[str, frozenset[UUID]]
ASSIGNOR: Assignor = simple


@given(subscriptions, subscriptions, partition_counts, partition_counts)
def test_every_partition_has_a_reader_and_every_subscriber_a_partition(
    first: Subscriptions, second: Subscriptions, old_counts: dict[UUID, int], counts: dict[UUID, int]
) -> None:
    before = ASSIGNOR.assign(group(first), old_counts)
    after = ASSIGNOR.assign(group(second, before), counts)
    check_only_subscribers_read(after, second)
    assert readers(after).keys() == to_be_read(second, counts)
    for member_id, topics in second.items():
        assert bool(after[member_id]) == bool(topics & counts.keys())


@given(equal_subscriptions, equal_subscriptions, partition_counts)
def test_members_with_the_same_topics_differ_by_at_most_one_partition(
    first: Subscriptions, second: Subscriptions, counts: dict[UUID, int]
) -> None:
    after = ASSIGNOR.assign(group(second, ASSIGNOR.assign(group(first), counts)), counts)
    sizes = [len(partitions_of(mine)) for mine in after.values()]
    assert max(sizes) - min(sizes) <= 1


@given(equal_subscriptions, partition_counts)
def test_partitions_have_equally_many_readers_at_first(subscribed: Subscriptions, counts: dict[UUID, int]) -> None:
    many = readers(ASSIGNOR.assign(group(subscribed), counts)).values()
    assert not many or max(many) - min(many) <= 1


@given(subscriptions, partition_counts)
def test_nothing_moves_while_nothing_changes(subscribed: Subscriptions, counts: dict[UUID, int]) -> None:
    before = ASSIGNOR.assign(group(subscribed), counts)
    assert moved(before, ASSIGNOR.assign(group(subscribed, before), counts)) == 0


def test_one_partition_is_shared_by_all() -> None:
    subscribed = dict.fromkeys(["a", "b", "c"], frozenset(TOPICS[:1]))
    assert readers(ASSIGNOR.assign(group(subscribed), {TOPICS[0]: 1})) == {(TOPICS[0], 0): 3}


def test_a_thousand_members_of_ten_thousand_partitions_are_assigned_within_a_second() -> None:
    for topic_count, member_count in ((100, 1000), (1, 5000)):
        counts = {UUID(int=number): 100 for number in range(1, topic_count + 1)}
        subscribed = {f"member-{number}": frozenset(counts) for number in range(member_count)}
        began = process_time()
        assignments = ASSIGNOR.assign(group(subscribed), counts)
        ASSIGNOR.assign(group(subscribed, assignments), counts)
        assert process_time() - began < 2
        assert readers(assignments).keys() == to_be_read(subscribed, counts)
