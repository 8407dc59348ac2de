"""The range assignor: the same numbers of co-partitioned topics, and each topic divided evenly."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from tests.coordination.assignors.assignor_groups import (
    TOPICS,
    check_everything_is_read_once,
    check_only_subscribers_read,
    group,
    moved,
    partition_counts,
    subscriptions,
)

from catchment.coordination.assignors import range as range_assignor
from catchment.coordination.assignors.assignor import Assignor

Subscriptions = Mapping[str, frozenset[UUID]]
ASSIGNOR: Assignor = range_assignor


@given(subscriptions, subscriptions, partition_counts, partition_counts)
def test_every_partition_is_read_once_and_each_topic_is_divided_evenly(
    first: Subscriptions, second: Subscriptions, old_counts: dict[UUID, int], counts: dict[UUID, int]
) -> None:
    before = ASSIGNOR.assign(group(first), old_counts)
    after = ASSIGNOR.assign(group(second, before), counts)
    check_everything_is_read_once(after, second, counts)
    check_only_subscribers_read(after, second)
    for topic_id in counts:
        sizes = [len(after[id_].get(topic_id, ())) for id_, topics in second.items() if topic_id in topics]
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(subscriptions, subscriptions, st.integers(1, 9))
def test_topics_with_the_same_readers_and_size_are_divided_alike(
    first: Subscriptions, second: Subscriptions, count: int
) -> None:
    counts = dict.fromkeys(TOPICS, count)
    after = ASSIGNOR.assign(group(second, ASSIGNOR.assign(group(first), counts)), counts)
    for topic_id in TOPICS:
        for other in TOPICS:
            if {id_ for id_ in second if topic_id in second[id_]} == {id_ for id_ in second if other in second[id_]}:
                assert all(after[id_].get(topic_id) == after[id_].get(other) for id_ in second)


def test_a_first_assignment_is_in_runs() -> None:
    subscribed = {"a": frozenset(TOPICS[:1]), "b": frozenset(TOPICS[:1])}
    assert ASSIGNOR.assign(group(subscribed), {TOPICS[0]: 5}) == {
        "a": {TOPICS[0]: frozenset({0, 1, 2})},
        "b": {TOPICS[0]: frozenset({3, 4})},
    }


def test_a_new_member_moves_no_more_than_its_share() -> None:
    counts = dict.fromkeys(TOPICS[:2], 6)
    subscribed = {"a": frozenset(counts), "b": frozenset(counts)}
    before = ASSIGNOR.assign(group(subscribed), counts)
    after = ASSIGNOR.assign(group({**subscribed, "c": frozenset(counts)}, before), counts)
    assert moved(before, after) == 4


def test_a_topic_created_later_is_divided_like_the_existing_ones() -> None:
    subscribed = {"a": frozenset(TOPICS[:1]), "b": frozenset(TOPICS[:1])}
    before = ASSIGNOR.assign(group(subscribed), {TOPICS[0]: 4})
    swapped = {"a": before["b"], "b": before["a"]}
    both = dict.fromkeys(subscribed, frozenset(TOPICS[:2]))
    after = ASSIGNOR.assign(group(both, swapped), dict.fromkeys(TOPICS[:2], 4))
    assert {id_: after[id_][TOPICS[1]] for id_ in after} == {id_: swapped[id_][TOPICS[0]] for id_ in after}
