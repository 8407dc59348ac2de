"""OffsetCommit, OffsetFetch, OffsetDelete and the expiration of offsets.

A member commits with its generation, so that a member that was removed cannot move the group back. A consumer that assigns
partitions itself commits without a generation, which is allowed while the group has no members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import MAX_NAME_BYTES, EncodedRecord, Producer, is_too_long
from catchment.coordination.groups.classic.group import CONSUMER, Group, GroupState
from catchment.coordination.groups.classic.rebalance import Rebalance
from catchment.coordination.groups.consumer.group import (
    FIRST_COMMIT_VERSION_WITH_EPOCHS,
    ConsumerGroup,
    TopicIdPartition,
)
from catchment.coordination.groups.consumer.records import ConsumerGroups
from catchment.coordination.groups.offsets import TopicPartition, has_expired
from catchment.coordination.groups.records import (
    NO_EPOCH,
    NO_TIME,
    CommittedOffset,
    GroupKey,
    OffsetKey,
    OffsetToCommit,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

Outcomes = list[ErrorCode]
OutcomesReply = Callable[[Outcomes], None]


class CommitRequest(NamedTuple):
    """An OffsetCommit or, with a producer, a TxnOffsetCommit."""

    group_id: str
    generation: int
    """Or the member epoch, in a consumer group."""
    member_id: str
    instance_id: str | None
    offsets: Sequence[OffsetToCommit]
    producer: Producer | None = None
    """The offsets take effect once the open transaction of this producer commits."""
    version: int = FIRST_COMMIT_VERSION_WITH_EPOCHS - 1
    """The version of OffsetCommit."""


class OffsetCommands:
    __slots__ = ("_consumer_groups", "_rebalance", "_state")

    def __init__(self, state: ShardState, rebalance: Rebalance, consumer_groups: ConsumerGroups) -> None:
        self._state = state
        self._rebalance = rebalance
        self._consumer_groups = consumer_groups

    def commit(self, request: CommitRequest, reply: OutcomesReply, now: Moment) -> None:
        """Commit the valid offsets, and reply with an error code for each offset."""
        try:
            allowed = self._check(request, now)
        except ApiError as error:
            reply([error.code] * len(request.offsets))
            return
        outcomes = [self._outcome(one, allowed) for one in request.offsets]
        records: list[EncodedRecord] = [
            (
                encode_offset_key(OffsetKey(request.group_id, one.topic, one.partition)),
                encode_offset(CommittedOffset(one.offset, one.leader_epoch, one.metadata, now.wall_ms)),
            )
            for one, outcome in zip(request.offsets, outcomes, strict=True)
            if outcome is ErrorCode.none
        ]
        if not records:
            reply(outcomes)
            return
        self._state.write(
            records,
            committed=lambda _: reply(outcomes),
            failed=lambda error, _: reply([error if one is ErrorCode.none else one for one in outcomes]),
            producer=request.producer,
        )

    def _check(self, request: CommitRequest, now: Moment) -> frozenset[TopicIdPartition] | None:
        """The partitions that may be committed, None means all; ApiError if the whole commit is rejected."""
        group_id, generation, member_id, instance_id, _, producer, version = request
        if self._state.others.get(group_id) is not None:
            return self._check_other(
                group_id, generation, member_id, instance_id, version if producer is None else None
            )
        if producer is None:
            self._check_commit(group_id, generation, member_id, instance_id, now, version)
        else:
            self._check_transactional_commit(group_id, generation, member_id, instance_id)
        return None

    def fetch(
        self, group_id: str, member_id: str | None = None, epoch: int = NO_EPOCH
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """All offsets that the group has committed; none for a group that does not exist.

        ApiError if the request names a member of a consumer group that is unknown or has another epoch.
        """
        group = self._consumer_groups.by_id.get(group_id)
        if group is not None:
            group.validate_offset_fetch(member_id, epoch)
        return self._state.offsets.of_group(group_id)

    def pending(self, group_id: str) -> Set[TopicPartition]:
        """The partitions whose offsets an open transaction may still change."""
        return self._state.pending_offsets.of_group(group_id)

    def delete(self, group_id: str, partitions: Sequence[TopicPartition], reply: OutcomesReply) -> None:
        """Delete offsets of topics that no member subscribes to; ApiError if the group forbids it for all topics."""
        topics = self._topics_in_use(group_id)
        outcomes = [
            ErrorCode.group_subscribed_to_topic if topics is None or topic in topics else ErrorCode.none
            for topic, _ in partitions
        ]
        committed, pending = self.fetch(group_id), self.pending(group_id)
        records = [
            tombstone(OffsetKey(group_id, *partition))
            for partition, outcome in zip(partitions, outcomes, strict=True)
            if outcome is ErrorCode.none and (partition in committed or partition in pending)
        ]
        if not records:
            reply(outcomes)
            return
        self._state.write(
            records,
            committed=lambda _: reply(outcomes),
            failed=lambda error, _: reply([error] * len(outcomes)),
        )

    def _topics_in_use(self, group_id: str) -> frozenset[str] | None:
        """The topics that the members subscribe to, or None if unknown; ApiError if no offset may be deleted."""
        if group_id in self._state.others:
            return self._consumer_groups.find(group_id).topics
        group = self._state.existing(group_id, ErrorCode.group_id_not_found)
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            raise ApiError(ErrorCode.non_empty_group, f"The group '{group_id}' has members.")
        return group.topics if group.members else frozenset()

    def delete_topic(self, topic: str) -> None:
        """Delete all offsets of a deleted topic."""
        keys = dict.fromkeys((*self._state.offsets.of_topic(topic), *self._state.pending_offsets.of_topic(topic)))
        self._write_in_batches([tombstone(key) for key in keys])

    def expire(self, now: Moment) -> None:
        """Delete offsets that are older than `offsets.retention.minutes`, and groups that are empty without them."""
        records: list[EncodedRecord] = []
        for group in list(self._state.groups.values()):
            offsets = self._state.offsets.of_group(group.group_id)
            expired = list(self._expired(group, offsets, now))
            records += [tombstone(OffsetKey(group.group_id, *partition)) for partition in expired]
            has_offsets = len(expired) < len(offsets) or bool(self.pending(group.group_id))
            if not has_offsets and group.is_idle and group.group_id in self._state.logged:
                records.append((encode_group_key(GroupKey(group.group_id)), None))
        for consumers in list(self._consumer_groups.by_id.values()):
            records += self._expired_of_consumer_group(consumers, now)
        self._write_in_batches(records)

    def _expired_of_consumer_group(self, group: ConsumerGroup, now: Moment) -> list[EncodedRecord]:
        """Tombstones for the expired offsets of a consumer group, and for the group itself if it is empty without them."""
        offsets, pending, topics = (
            self._state.offsets.of_group(group.group_id),
            self.pending(group.group_id),
            group.topics,
        )
        retention_ms = self._state.limits.offsets_retention_ms
        expired = [
            tombstone(OffsetKey(group.group_id, *partition))
            for partition, committed in offsets.items()
            if partition[0] not in topics
            and partition not in pending
            and has_expired(committed, committed.commit_time_ms, retention_ms, now.wall_ms)
        ]
        is_done = group.is_empty and not pending and len(expired) == len(offsets)
        return expired + group.tombstones() if is_done else expired

    def _expired(
        self, group: Group, offsets: Mapping[TopicPartition, CommittedOffset], now: Moment
    ) -> Iterator[TopicPartition]:
        topics: frozenset[str] = frozenset()
        if group.state is not GroupState.EMPTY:
            known = group.topics if group.state is GroupState.STABLE else None
            if known is None:
                return
            topics = known
        since_empty = group.protocol_type is not None and group.state is GroupState.EMPTY
        pending = self.pending(group.group_id)
        for partition, committed in offsets.items():
            since_ms = committed.commit_time_ms
            if since_empty and group.state_time_ms != NO_TIME:
                since_ms = group.state_time_ms
            if partition[0] in topics or partition in pending:
                continue
            if has_expired(committed, since_ms, self._state.limits.offsets_retention_ms, now.wall_ms):
                yield partition

    def _outcome(self, one: OffsetToCommit, allowed: frozenset[TopicIdPartition] | None) -> ErrorCode:
        if allowed is not None:
            topic = self._state.image.topics.get(one.topic)
            if topic is None or (topic.id, one.partition) not in allowed:
                return ErrorCode.stale_member_epoch
        most_bytes = min(self._state.limits.offset_metadata_max_bytes, MAX_NAME_BYTES)
        is_too_large = len(one.metadata.encode()) > most_bytes
        return ErrorCode.offset_metadata_too_large if is_too_large else ErrorCode.none

    def _check_other(
        self, group_id: str, epoch: int, member_id: str, instance_id: str | None, version: int | None
    ) -> frozenset[TopicIdPartition] | None:
        """The partitions that may be committed in a group that is not classic; None means all."""
        group = self._consumer_groups.find(group_id)
        try:
            return group.validate_offset_commit(member_id, instance_id, epoch, version)
        except ApiError as error:
            if version is None and error.code is ErrorCode.stale_member_epoch:
                # TxnOffsetCommit has no error for member epochs.
                raise ApiError(ErrorCode.illegal_generation, error.message) from error
            raise

    def _check_commit(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, now: Moment, version: int
    ) -> None:
        if is_too_long(group_id):
            raise ApiError(ErrorCode.invalid_group_id)
        group = self._state.groups.get(group_id)
        if group is None:
            if generation >= 0:
                has_epochs = version >= FIRST_COMMIT_VERSION_WITH_EPOCHS
                raise ApiError(ErrorCode.group_id_not_found if has_epochs else ErrorCode.illegal_generation)
            return
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise ApiError(ErrorCode.unknown_member_id, "The group has members, and only they may commit.")
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.illegal_generation)
        if group.state is GroupState.COMPLETING:
            raise ApiError(ErrorCode.rebalance_in_progress)
        self._rebalance.start_session(group, member, now)

    def _check_transactional_commit(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None
    ) -> None:
        """As for other commits, but a producer may omit the member: old producers do not send it (KIP-447)."""
        if is_too_long(group_id):
            raise ApiError(ErrorCode.invalid_group_id)
        group = self._state.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise ApiError(ErrorCode.illegal_generation)
            return
        if generation < 0 and (group.state is GroupState.EMPTY or (not member_id and instance_id is None)):
            return
        group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.illegal_generation)

    def _write_in_batches(self, records: list[EncodedRecord]) -> None:
        for start in range(0, len(records), _MAX_RECORDS_PER_WRITE):
            self._state.write(records[start : start + _MAX_RECORDS_PER_WRITE])


_MAX_RECORDS_PER_WRITE = 500
"""The number of tombstones in one write. Each has at most two names, so that they fit into a batch."""


def tombstone(key: OffsetKey) -> EncodedRecord:
    return encode_offset_key(key), None
