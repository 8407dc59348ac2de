"""The next step of one member towards its target.

A member first gives up what it shall not have any more, and says so by what it owns; only then does it move to the target's
epoch and get what is new. It never gets a partition that another member still holds: it waits for it and asks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from catchment.coordination.consumer_groups.group import ConsumerGroup
from catchment.coordination.consumer_groups.members import CurrentAssignment, MemberState, Partitions, Target

Owned = Mapping[UUID, frozenset[int]]
"""What a member says that it reads."""


def next_assignment(
    group: ConsumerGroup,
    member_id: str,
    subscribed: frozenset[UUID],
    owned: Owned | None,
    *,
    has_new_subscription: bool,
) -> CurrentAssignment:
    """Where the member stands after it has told what it owns (None: it did not tell)."""
    current = group.current(member_id)
    if current.state is MemberState.STABLE and current.epoch == group.assignment_epoch:
        return _without_unsubscribed(current, subscribed, owned) if has_new_subscription else current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, current.revoking):
        return _without_unsubscribed(current, subscribed, owned) if has_new_subscription else current
    return _towards_target(group, member_id, current, subscribed, owned)


def is_waiting(group: ConsumerGroup, member_id: str) -> bool:
    """Whether another member still holds a partition that this one shall have."""
    return any(
        group.owners.get((topic_id, number), member_id) != member_id
        for topic_id, numbers in group.target(member_id).items()
        for number in numbers
    )


def _towards_target(
    group: ConsumerGroup, member_id: str, current: CurrentAssignment, subscribed: frozenset[UUID], owned: Owned | None
) -> CurrentAssignment:
    target = {topic_id: numbers for topic_id, numbers in group.target(member_id).items() if topic_id in subscribed}
    kept = _only(current.assigned, target)
    revoking = _without(current.assigned, kept)
    if revoking and _owns_any(owned, revoking):
        return CurrentAssignment(
            current.epoch, current.previous_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking
        )
    assigned = {topic_id: dict(epochs) for topic_id, epochs in kept.items()}
    state = MemberState.STABLE
    for topic_id, numbers in target.items():
        for number in sorted(numbers - kept.get(topic_id, {}).keys()):
            if group.owners.get((topic_id, number), member_id) == member_id:
                assigned.setdefault(topic_id, {})[number] = group.assignment_epoch
            else:
                state = MemberState.UNRELEASED_PARTITIONS
    moved = current.at_epoch(group.assignment_epoch)
    return CurrentAssignment(moved.epoch, moved.previous_epoch, state, assigned)


def _without_unsubscribed(
    current: CurrentAssignment, subscribed: frozenset[UUID], owned: Owned | None
) -> CurrentAssignment:
    """Take away topics at once that the member does not want any more."""
    kept = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id in subscribed}
    if len(kept) == len(current.assigned):
        return current
    revoking = {topic_id: dict(epochs) for topic_id, epochs in current.revoking.items()}
    for topic_id, epochs in _without(current.assigned, kept).items():
        revoking.setdefault(topic_id, {}).update(epochs)
    if _owns_any(owned, revoking):
        return current._replace(state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
    return current._replace(assigned=kept)


def _owns_any(owned: Owned | None, revoking: Partitions) -> bool:
    """Whether the member has, or may have, any of what it has to give up."""
    if owned is None:
        return True
    return any(number in revoking.get(topic_id, {}) for topic_id, numbers in owned.items() for number in numbers)


def _only(partitions: Partitions, wanted: Target) -> dict[UUID, dict[int, int]]:
    found = {
        topic_id: {number: epoch for number, epoch in epochs.items() if number in wanted.get(topic_id, frozenset())}
        for topic_id, epochs in partitions.items()
    }
    return {topic_id: epochs for topic_id, epochs in found.items() if epochs}


def _without(partitions: Partitions, kept: Partitions) -> dict[UUID, dict[int, int]]:
    found = {
        topic_id: {number: epoch for number, epoch in epochs.items() if number not in kept.get(topic_id, {})}
        for topic_id, epochs in partitions.items()
    }
    return {topic_id: epochs for topic_id, epochs in found.items() if epochs}
