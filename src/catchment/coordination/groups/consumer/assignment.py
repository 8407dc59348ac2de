"""From a changed subscription to a new target assignment, and the next step of a member to its target.

A member first revokes the partitions that are not in its target, and reports so with the partitions that it owns. Only then
does it move to the epoch of the target and get new partitions. It never gets a partition that another member still holds: it
waits for it and asks again with its next heartbeat.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from uuid import UUID

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.assignors import range as range_assignor
from catchment.coordination.assignors import uniform
from catchment.coordination.assignors.assignor import Assignor, MemberSpec
from catchment.coordination.groups.consumer.commands import ConsumerGroupLimits
from catchment.coordination.groups.consumer.group import (
    AssignedPartitions,
    ConsumerGroup,
    CurrentAssignment,
    MemberState,
    ResolvedRegex,
)
from catchment.coordination.groups.consumer.records import Draft
from catchment.coordination.groups.modern import MemberMetadata, PartitionsByTopic
from catchment.coordination.groups.state import ShardState
from catchment.coordination.regular_expressions import matching
from catchment.coordination.timers import Moment

ASSIGNORS: dict[str, Assignor] = {uniform.NAME: uniform, range_assignor.NAME: range_assignor}

_NEW = MemberMetadata()


class AssignmentBuilder:
    __slots__ = ("_limits", "_state")

    def __init__(self, state: ShardState, limits: ConsumerGroupLimits) -> None:
        self._state = state
        self._limits = limits

    def advance(
        self, draft: Draft, member_id: str, member: MemberMetadata, owned: PartitionsByTopic | None, now: Moment
    ) -> CurrentAssignment:
        """Apply the metadata of a member, and return its next assignment."""
        former = draft.group.members.get(member_id)
        known = former or _NEW
        if member != former:
            draft.put_member(member_id, member)
        has_new_regex = member.regex != known.regex
        if has_new_regex:
            self._resolve_regex(draft, member.regex, now)
        has_new_subscription = member.topics != known.topics or has_new_regex
        self.refresh(draft, now, has_changed=has_new_subscription)
        self.assign(draft, now)
        return self._reconcile(draft, member_id, owned, has_new_subscription=has_new_subscription)

    def refresh(self, draft: Draft, now: Moment, *, has_changed: bool) -> None:
        """Begin a new group epoch if members or topics have changed since the last one."""
        image = self._state.image
        is_stale = draft.group.checked_version != image.version
        if is_stale:
            for regex, resolved in list(draft.group.regexes.items()):
                topics = matching(regex, image.topics)
                if topics != resolved.topics:
                    draft.put_regex(regex, ResolvedRegex(topics, image.version, now.wall_ms))
        if is_stale or has_changed or draft.group.epoch == 0:
            group = draft.group
            metadata_hash = _metadata_hash(group.topics, image)
            if has_changed or group.epoch == 0 or metadata_hash != group.metadata_hash:
                draft.put_epoch(group.epoch + 1, metadata_hash)

    def assign(self, draft: Draft, now: Moment) -> None:
        """Compute the target assignment of the group epoch, if there is none yet."""
        group = draft.group
        if group.epoch == group.assignment_epoch:
            return
        image = self._state.image
        specs = {
            member_id: MemberSpec(
                member.instance_id, member.rack_id, topic_ids(group, member, image), group.target(member_id)
            )
            for member_id, member in group.members.items()
        }
        counts = {
            topic_id: len(image.topics_by_id[topic_id].partitions)
            for topic_id in sorted({topic_id for spec in specs.values() for topic_id in spec.topics})
        }
        targets = ASSIGNORS[self.assignor_of(group)].assign(specs, counts)
        for member_id, target in targets.items():
            if target != group.targets.get(member_id):
                draft.put_target(member_id, target)
        draft.put_target_epoch(group.epoch, now.wall_ms)

    def assignor_of(self, group: ConsumerGroup) -> str:
        """The assignor that most members prefer; else the first of the settings."""
        votes = Counter(sorted(member.assignor for member in group.members.values() if member.assignor))
        (preferred, _), *_ = votes.most_common(1) or [(self._limits.assignors[0], 0)]
        return preferred if preferred in self._limits.assignors else self._limits.assignors[0]

    def drop_unused_regexes(self, draft: Draft) -> None:
        used = {member.regex for member in draft.group.members.values()}
        for regex in [regex for regex in draft.group.regexes if regex not in used]:
            draft.put_regex(regex, None)

    def mark_checked(self, group: ConsumerGroup) -> None:
        """Note that the group is up to date with the current metadata image."""
        group.checked_version = self._state.image.version

    def _resolve_regex(self, draft: Draft, regex: str | None, now: Moment) -> None:
        image = self._state.image
        if regex is not None and regex not in draft.group.regexes:
            draft.put_regex(regex, ResolvedRegex(matching(regex, image.topics), image.version, now.wall_ms))
        self.drop_unused_regexes(draft)

    def _reconcile(
        self, draft: Draft, member_id: str, owned: PartitionsByTopic | None, *, has_new_subscription: bool
    ) -> CurrentAssignment:
        group = draft.group
        subscribed = topic_ids(group, group.members[member_id], self._state.image)
        before = group.currents.get(member_id)
        after = next_assignment(group, member_id, subscribed, owned, has_new_subscription=has_new_subscription)
        if after != before:
            draft.put_current(member_id, after)
        return after


def topic_ids(group: ConsumerGroup, member: MemberMetadata, image: MetadataImage) -> frozenset[UUID]:
    """The existing topics that a member subscribes to."""
    found = (image.topics.get(name) for name in group.topics_of(member))
    return frozenset(topic.id for topic in found if topic is not None)


def _metadata_hash(names: frozenset[str], image: MetadataImage) -> int:
    """A number that changes when a subscribed topic is created, is deleted or gets partitions. Only we compare it."""
    digest = hashlib.blake2b(digest_size=8)
    topics = [topic for name in sorted(names) if (topic := image.topics.get(name)) is not None]
    for topic in topics:
        digest.update(b"%b %d %b\n" % (topic.id.bytes, len(topic.partitions), topic.name.encode()))
    return int.from_bytes(digest.digest(), "big", signed=True) if topics else 0


def next_assignment(
    group: ConsumerGroup,
    member_id: str,
    subscribed: frozenset[UUID],
    owned: PartitionsByTopic | None,
    *,
    has_new_subscription: bool,
) -> CurrentAssignment:
    """The next assignment of a member, given the partitions that it reports to own (None: not reported)."""
    current = group.current(member_id)
    if current.state is MemberState.STABLE and current.epoch == group.assignment_epoch:
        return _without_unsubscribed(current, subscribed, owned) if has_new_subscription else current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, current.revoking):
        return _without_unsubscribed(current, subscribed, owned) if has_new_subscription else current
    return _towards_target(group, member_id, current, subscribed, owned)


def is_waiting(group: ConsumerGroup, member_id: str) -> bool:
    """Whether another member still holds a partition of this member's target."""
    return any(
        group.owners.get((topic_id, number), member_id) != member_id
        for topic_id, numbers in group.target(member_id).items()
        for number in numbers
    )


def _towards_target(
    group: ConsumerGroup,
    member_id: str,
    current: CurrentAssignment,
    subscribed: frozenset[UUID],
    owned: PartitionsByTopic | None,
) -> CurrentAssignment:
    target = {topic_id: numbers for topic_id, numbers in group.target(member_id).items() if topic_id in subscribed}
    kept = _intersection(current.assigned, target)
    revoking = _difference(current.assigned, kept)
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
    current: CurrentAssignment, subscribed: frozenset[UUID], owned: PartitionsByTopic | None
) -> CurrentAssignment:
    """Revoke topics at once that the member does not subscribe to any more."""
    kept = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id in subscribed}
    if len(kept) == len(current.assigned):
        return current
    revoking = {topic_id: dict(epochs) for topic_id, epochs in current.revoking.items()}
    for topic_id, epochs in _difference(current.assigned, kept).items():
        revoking.setdefault(topic_id, {}).update(epochs)
    if _owns_any(owned, revoking):
        return current._replace(state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
    return current._replace(assigned=kept)


def _owns_any(owned: PartitionsByTopic | None, revoking: AssignedPartitions) -> bool:
    """Whether the member owns, or may own, a partition that it has to revoke."""
    if owned is None:
        return True
    return any(number in revoking.get(topic_id, {}) for topic_id, numbers in owned.items() for number in numbers)


def _intersection(partitions: AssignedPartitions, wanted: PartitionsByTopic) -> dict[UUID, dict[int, int]]:
    found = {
        topic_id: {number: epoch for number, epoch in epochs.items() if number in wanted.get(topic_id, frozenset())}
        for topic_id, epochs in partitions.items()
    }
    return {topic_id: epochs for topic_id, epochs in found.items() if epochs}


def _difference(partitions: AssignedPartitions, kept: AssignedPartitions) -> dict[UUID, dict[int, int]]:
    found = {
        topic_id: {number: epoch for number, epoch in epochs.items() if number not in kept.get(topic_id, {})}
        for topic_id, epochs in partitions.items()
    }
    return {topic_id: epochs for topic_id, epochs in found.items() if epochs}
