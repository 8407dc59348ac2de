"""From a classic group to a consumer group and back, with all members staying where they are.

The records of the one kind are deleted and those of the other written in one batch, so a crash leaves either. Members that
speak the classic protocol keep their ids and what they read; their generation and the group's epoch are one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.classic.consumer_protocol import read_assignment, read_subscription, write_assignment
from catchment.coordination.groups.classic.group import CONSUMER, Group, GroupState, Member
from catchment.coordination.groups.classic.rebalance import Rebalance
from catchment.coordination.groups.consumer.commands import ConsumerGroupLimits
from catchment.coordination.groups.consumer.group import AssignedPartitions, ConsumerGroup, CurrentAssignment
from catchment.coordination.groups.consumer.records import Draft
from catchment.coordination.groups.modern import ClassicProtocol, MemberMetadata
from catchment.coordination.groups.records import GroupKey, encode_group_key
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError, MalformedRequest


class Conversion:
    __slots__ = ("_limits", "_rebalance", "_state")

    def __init__(self, state: ShardState, rebalance: Rebalance, limits: ConsumerGroupLimits) -> None:
        self._state = state
        self._rebalance = rebalance
        self._limits = limits

    def upgrade(self, classic: Group, now: Moment) -> Draft:
        """The consumer group that a classic one becomes; ApiError where it may not, or cannot."""
        first: list[EncodedRecord] = []
        if classic.group_id in self._state.logged:
            first.append((encode_group_key(GroupKey(classic.group_id)), None))
        draft = Draft(ConsumerGroup(classic.group_id), first)
        if classic.state is GroupState.EMPTY:
            return draft
        self._check_upgrade(classic)
        try:
            members = {id_: self._converted(classic, member) for id_, member in classic.members.items()}
        except MalformedRequest as error:
            raise _refusal(classic, "what its members have told cannot be read") from error
        for member_id, (subscription, _) in members.items():
            draft.put_member(member_id, subscription)
        draft.put_epoch(classic.generation, 0)
        for member_id, (_, current) in members.items():
            target = {topic_id: frozenset(numbers) for topic_id, numbers in current.assigned.items()}
            draft.put_target(member_id, target)
        draft.put_target_epoch(classic.generation, now.wall_ms)
        for member_id, (_, current) in members.items():
            draft.put_current(member_id, current)
        return draft

    def can_downgrade(self, group: ConsumerGroup, remaining: Sequence[str]) -> bool:
        """Whether these members, left alone, are a classic group."""
        return (
            0 < len(remaining) <= self._state.limits.max_size
            and self._limits.migration_policy.allows_downgrade
            and all(group.members[member_id].classic is not None for member_id in remaining)
        )

    def downgrade(
        self,
        group: ConsumerGroup,
        remaining: Sequence[str],
        now: Moment,
        committed: Callable[[], None],
        failed: Callable[[ErrorCode], None],
        deleted: ConsumerGroup | None = None,
    ) -> None:
        """Let those who are left go on as a classic group; they rebalance as soon as it is one.

        `deleted` is the group as it is logged, where the one given is a draft of it.
        """
        image = self._state.image
        classic = Group(group.group_id)
        classic.protocol_type = CONSUMER
        classic.generation = group.epoch
        assignments: dict[str, bytes] = {}
        for member_id in remaining:
            member = _classic_member(member_id, group.members[member_id])
            classic.add(member)
            assignments[member_id] = embedded_assignment(
                group.members[member_id], group.current(member_id).assigned, image
            )
        classic.protocol_name = classic.select_protocol()

        def become_classic(then: Moment) -> None:
            self._begin(group.group_id, then)
            committed()

        self._state.write(
            [*(deleted or group).tombstones(), self._rebalance.record(classic, assignments, now)],
            committed=become_classic,
            failed=lambda error, _: failed(error),
        )

    def _begin(self, group_id: str, now: Moment) -> None:
        group = self._state.groups.get(group_id)
        if group is None:
            return
        for member in group.members.values():
            self._rebalance.start_session(group, member, now)
        if group.state is GroupState.STABLE:
            self._rebalance.begin(group, now)

    def _check_upgrade(self, classic: Group) -> None:
        if not self._limits.migration_policy.allows_upgrade:
            raise _refusal(classic, "`group.consumer.migration.policy` does not allow it")
        if classic.protocol_type != CONSUMER:
            raise _refusal(classic, "its members are no consumers")
        if len(classic.members) > self._limits.max_size:
            raise _refusal(classic, "it has too many members")

    def _converted(self, classic: Group, member: Member) -> tuple[MemberMetadata, CurrentAssignment]:
        name = classic.protocol_name if member.supports(classic.protocol_name or "") else member.protocols[0][0]
        subscription = read_subscription(member.metadata(name))
        assignment = read_assignment(member.assignment)
        if assignment.has_user_data:
            raise _refusal(classic, "it has an assignor of its own")
        assigned = {
            topic_id: dict.fromkeys(numbers, classic.generation)
            for topic_id, numbers in by_topic_id(assignment.partitions, self._state.image).items()
        }
        return (
            MemberMetadata(
                member.instance_id,
                subscription.rack_id,
                member.client_id,
                member.client_host,
                subscription.topics,
                None,
                member.rebalance_timeout_ms,
                None,
                ClassicProtocol(member.session_timeout_ms, member.protocols),
            ),
            CurrentAssignment(classic.generation, classic.generation, assigned=assigned),
        )


def by_topic_id(partitions: Mapping[str, Sequence[int]], image: MetadataImage) -> dict[UUID, frozenset[int]]:
    """Those of the partitions that exist."""
    found: dict[UUID, frozenset[int]] = {}
    for name, numbers in partitions.items():
        topic = image.topics.get(name)
        known = frozenset(number for number in numbers if topic is not None and 0 <= number < len(topic.partitions))
        if topic is not None and known:
            found[topic.id] = known
    return found


def embedded_assignment(member: MemberMetadata, assigned: AssignedPartitions, image: MetadataImage) -> bytes:
    """What a classic member is told that it may read, in the version of its own metadata."""
    by_name = {
        topic.name: sorted(numbers)
        for topic_id, numbers in assigned.items()
        if (topic := image.topics_by_id.get(topic_id)) is not None
    }
    version = read_subscription(member.classic.protocols[0][1]).version if member.classic is not None else 0
    return write_assignment(by_name, version)


def _classic_member(member_id: str, member: MemberMetadata) -> Member:
    classic = member.classic or ClassicProtocol(0, ())
    return Member(
        member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        classic.session_timeout_ms,
        classic.protocols,
    )


def _refusal(classic: Group, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.group_id_not_found,
        f"The classic group '{classic.group_id}' cannot become a consumer group: {reason}.",
    )
