"""Groups for the tests of assignors: topics and members, histories of them, and checks of what must always hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from uuid import UUID

from hypothesis import strategies as st

from catchment.coordination.assignors.assignor import Assignment, MemberSpec

TOPICS = [UUID(int=number) for number in range(1, 5)]
Partition = tuple[UUID, int]

partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7))
_subscriptions = st.frozensets(st.sampled_from(TOPICS), min_size=1)
_ids = st.sampled_from([f"member-{number}" for number in range(9)])
mixed_subscriptions = st.dictionaries(_ids, _subscriptions, min_size=1)
"""Members with different subscriptions."""
equal_subscriptions = st.builds(
    lambda ids, topics: dict.fromkeys(sorted(ids), topics), st.frozensets(_ids, min_size=1), _subscriptions
)
subscriptions = st.one_of(mixed_subscriptions, equal_subscriptions)


def group(
    subscribed: Mapping[str, frozenset[UUID]], before: Mapping[str, Assignment] | None = None
) -> dict[str, MemberSpec]:
    """Members with these subscriptions, some of them static, with their previous assignments."""
    held = before or {}
    return {
        member_id: MemberSpec(
            f"instance-{member_id}" if member_id.endswith(("1", "4")) else None, None, topics, held.get(member_id, {})
        )
        for member_id, topics in subscribed.items()
    }


def partitions_of(assignment: Assignment) -> set[Partition]:
    return {(topic_id, number) for topic_id, numbers in assignment.items() for number in numbers}


def readers(assignments: Mapping[str, Assignment]) -> Counter[Partition]:
    """The number of members of each assigned partition."""
    return Counter(partition for assignment in assignments.values() for partition in partitions_of(assignment))


def to_be_read(subscribed: Mapping[str, frozenset[UUID]], counts: Mapping[UUID, int]) -> set[Partition]:
    """Every existing partition that any member subscribes to."""
    return {
        (topic_id, number)
        for topic_id, count in counts.items()
        for number in range(count)
        if any(topic_id in topics for topics in subscribed.values())
    }


def check_everything_is_read_once(
    assignments: Mapping[str, Assignment], subscribed: Mapping[str, frozenset[UUID]], counts: Mapping[UUID, int]
) -> None:
    assert readers(assignments) == Counter(to_be_read(subscribed, counts))


def check_only_subscribers_read(
    assignments: Mapping[str, Assignment], subscribed: Mapping[str, frozenset[UUID]]
) -> None:
    assert assignments.keys() == subscribed.keys()
    for member_id, assignment in assignments.items():
        assert assignment.keys() <= subscribed[member_id]


def check_no_move_helps(assignments: Mapping[str, Assignment], subscribed: Mapping[str, frozenset[UUID]]) -> None:
    sizes = {member_id: len(partitions_of(assignment)) for member_id, assignment in assignments.items()}
    for one, other in combinations(sizes, 2):
        most, least = (one, other) if sizes[one] > sizes[other] else (other, one)
        if sizes[most] > sizes[least] + 1:
            assert not assignments[most].keys() & subscribed[least]


def moved(before: Mapping[str, Assignment], after: Mapping[str, Assignment]) -> int:
    """The number of partitions that members have lost."""
    return sum(len(partitions_of(before[id_]) - partitions_of(after[id_])) for id_ in before if id_ in after)
