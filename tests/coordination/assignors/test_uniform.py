"""The uniform assignor: even over all topics, with as few moves as possible."""

from __future__ import annotations

from collections.abc import Mapping
from time import process_time
from uuid import UUID

from hypothesis import given
from tests.coordination.assignors.assignor_groups import (
    TOPICS,
    check_everything_is_read_once,
    check_no_move_helps,
    check_only_subscribers_read,
    equal_subscriptions,
    group,
    moved,
    partition_counts,
    partitions_of,
    subscriptions,
)

from catchment.coordination.assignors import uniform
from catchment.coordination.assignors.assignor import Assignor

Subscriptions = Mapping[str, frozenset[UUID]]
ASSIGNOR: Assignor = uniform


@given(subscriptions, subscriptions, partition_counts, partition_counts)
def test_every_partition_is_read_once_by_a_subscriber_and_no_move_would_help(
    first: Subscriptions, second: Subscriptions, old_counts: dict[UUID, int], counts: dict[UUID, int]
) -> None:
    before = ASSIGNOR.assign(group(first), old_counts)
    after = ASSIGNOR.assign(group(second, before), counts)
    for assignments, subscribed, existing in ((before, first, old_counts), (after, second, counts)):
        check_everything_is_read_once(assignments, subscribed, existing)
        check_only_subscribers_read(assignments, subscribed)
        check_no_move_helps(assignments, subscribed)


@given(equal_subscriptions, partition_counts)
def test_members_with_the_same_topics_differ_by_at_most_one_partition(
    subscribed: Subscriptions, counts: dict[UUID, int]
) -> None:
    sizes = [len(partitions_of(mine)) for mine in ASSIGNOR.assign(group(subscribed), counts).values()]
    assert max(sizes) - min(sizes) <= 1


@given(equal_subscriptions, partition_counts)
def test_a_new_member_gets_its_share_and_nothing_else_moves(subscribed: Subscriptions, counts: dict[UUID, int]) -> None:
    before = ASSIGNOR.assign(group(subscribed), counts)
    grown = {**subscribed, "new": next(iter(subscribed.values()))}
    after = ASSIGNOR.assign(group(grown, before), counts)
    assert moved(before, after) == len(partitions_of(after["new"]))


@given(equal_subscriptions, partition_counts)
def test_remaining_members_keep_their_partitions_when_another_leaves(
    subscribed: Subscriptions, counts: dict[UUID, int]
) -> None:
    before = ASSIGNOR.assign(group(subscribed), counts)
    left = dict(list(subscribed.items())[1:])
    if left:
        assert moved(before, ASSIGNOR.assign(group(left, before), counts)) == 0


def test_a_thousand_members_of_ten_thousand_partitions_are_assigned_within_a_second() -> None:
    counts = {UUID(int=number): 100 for number in range(1, 101)}
    alike = {f"member-{number}": frozenset(counts) for number in range(1000)}
    some = {
        f"member-{number}": frozenset(UUID(int=1 + (number + step) % 100) for step in range(10))
        for number in range(1000)
    }
    for subscribed in (alike, some):
        began = process_time()
        assignments = ASSIGNOR.assign(group(subscribed), counts)
        assert process_time() - began < 1
        check_everything_is_read_once(assignments, subscribed, counts)
        began = process_time()
        again = ASSIGNOR.assign(group({**subscribed, "new": frozenset(counts)}, assignments), counts)
        assert process_time() - began < 1
        assert moved(assignments, again) == len(partitions_of(again["new"]))


def test_a_topic_that_does_not_exist_is_not_assigned() -> None:
    assert ASSIGNOR.assign(group({"member-0": frozenset(TOPICS)}), {}) == {"member-0": {}}
