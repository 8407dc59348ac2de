"""Conversion of a classic group to a consumer group and back, without losing members.

The records of one kind are deleted and those of the other are written in one batch, so a crash leaves one or the other.
Members that use the classic protocol keep their ids and their partitions. Their generation and the group epoch are one number.
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
        """Convert a classic group to a consumer group; ApiError if that is not allowed or not possible."""
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
            raise _not_convertible(classic, "the metadata of its members cannot be read") from error
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
        """Whether the group can become a classic group with these members."""
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
        """Convert the group to a classic group with the remaining members, which then rebalance.

        `deleted` is the group as it is logged, if `group` is a draft of it.
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
            self._rebalance_classic(group.group_id, then)
            committed()

        self._state.write(
            [*(deleted or group).tombstones(), self._rebalance.record(classic, assignments, now)],
            committed=become_classic,
            failed=lambda error, _: failed(error),
        )

    def _rebalance_classic(self, group_id: str, now: Moment) -> None:
        group = self._state.groups.get(group_id)
        if group is None:
            return
        for member in group.members.values():
            self._rebalance.start_session(group, member, now)
        if group.state is GroupState.STABLE:
            self._rebalance.begin(group, now)

    def _check_upgrade(self, classic: Group) -> None:
        if not self._limits.migration_policy.allows_upgrade:
            raise _not_convertible(classic, "`group.consumer.migration.policy` does not allow it")
        if classic.protocol_type != CONSUMER:
            raise _not_convertible(classic, "its protocol type is not `consumer`")
        if len(classic.members) > self._limits.max_size:
            raise _not_convertible(classic, "it has too many members")

    def _converted(self, classic: Group, member: Member) -> tuple[MemberMetadata, CurrentAssignment]:
        name = classic.protocol_name if member.supports(classic.protocol_name or "") else member.protocols[0][0]
        subscription = read_subscription(member.metadata(name))
        assignment = read_assignment(member.assignment)
        if assignment.has_user_data:
            raise _not_convertible(classic, "it uses a custom assignor")
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
    """The existing partitions, by topic id."""
    found: dict[UUID, frozenset[int]] = {}
    for name, numbers in partitions.items():
        topic = image.topics.get(name)
        known = frozenset(number for number in numbers if topic is not None and 0 <= number < len(topic.partitions))
        if topic is not None and known:
            found[topic.id] = known
    return found


def embedded_assignment(member: MemberMetadata, assigned: AssignedPartitions, image: MetadataImage) -> bytes:
    """The assignment of a classic member, encoded in the version of its own metadata."""
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


def _not_convertible(classic: Group, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.group_id_not_found,
        f"The classic group '{classic.group_id}' cannot become a consumer group: {reason}.",
    )
