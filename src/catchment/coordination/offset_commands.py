"""OffsetCommit, OffsetFetch and OffsetDelete, and the end of offsets that nobody needs any more.

A member commits with its generation, so that one that was put out cannot move the group back. Whoever assigns partitions by
hand commits without one, as long as nobody manages the group through us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kio.schema.errors import ErrorCode

from catchment.coordination.commands import MAX_NAME_BYTES, OffsetToCommit, is_too_long
from catchment.coordination.group import CONSUMER, Group, GroupState
from catchment.coordination.group_records import (
    NO_TIME,
    CommittedOffset,
    GroupKey,
    OffsetKey,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from catchment.coordination.offsets import TopicPartition, has_expired
from catchment.coordination.rebalance import Rebalance
from catchment.coordination.replayed import EncodedRecord
from catchment.coordination.shard_state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

Outcomes = list[ErrorCode]
OutcomesReply = Callable[[Outcomes], None]


class OffsetCommands:
    __slots__ = ("_rebalance", "_state")

    def __init__(self, state: ShardState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: Sequence[OffsetToCommit],
        reply: OutcomesReply,
        now: Moment,
    ) -> None:
        """Commit what may be committed; the answer has an outcome for each offset."""
        try:
            self._check_commit(group_id, generation, member_id, instance_id, now)
        except ApiError as error:
            reply([error.code] * len(offsets))
            return
        most_bytes = min(self._state.limits.offset_metadata_max_bytes, MAX_NAME_BYTES)
        outcomes = [
            ErrorCode.offset_metadata_too_large if len(one.metadata.encode()) > most_bytes else ErrorCode.none
            for one in offsets
        ]
        records: list[EncodedRecord] = [
            (
                encode_offset_key(OffsetKey(group_id, one.topic, one.partition)),
                encode_offset(CommittedOffset(one.offset, one.leader_epoch, one.metadata, now.wall_ms)),
            )
            for one, outcome in zip(offsets, outcomes, strict=True)
            if outcome is ErrorCode.none
        ]
        if not records:
            reply(outcomes)
            return
        self._state.write(
            records,
            committed=lambda _: reply(outcomes),
            failed=lambda error, _: reply([error if one is ErrorCode.none else one for one in outcomes]),
        )

    def fetch(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All that the group has committed; a group that does not exist has committed nothing."""
        return self._state.offsets.of_group(group_id)

    def delete(self, group_id: str, partitions: Sequence[TopicPartition], reply: OutcomesReply) -> None:
        """Forget offsets of topics that no member subscribes to; ApiError if the group does not allow it at all."""
        group = self._state.existing(group_id, ErrorCode.group_id_not_found)
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            raise ApiError(ErrorCode.non_empty_group, f"The group '{group_id}' has members.")
        topics = group.topics if group.members else frozenset()
        outcomes = [
            ErrorCode.group_subscribed_to_topic if topics is None or topic in topics else ErrorCode.none
            for topic, _ in partitions
        ]
        committed = self._state.offsets.of_group(group_id)
        records = [
            tombstone(OffsetKey(group_id, *partition))
            for partition, outcome in zip(partitions, outcomes, strict=True)
            if outcome is ErrorCode.none and partition in committed
        ]
        if not records:
            reply(outcomes)
            return
        self._state.write(
            records,
            committed=lambda _: reply(outcomes),
            failed=lambda error, _: reply([error] * len(outcomes)),
        )

    def delete_topic(self, topic: str) -> None:
        """Forget all offsets of a topic that is gone."""
        records = [tombstone(key) for key in self._state.offsets.of_topic(topic)]
        self._write_slices(records)

    def expire(self, now: Moment) -> None:
        """Forget offsets that have outlived `offsets.retention.minutes`, and groups that are left with nothing."""
        records: list[EncodedRecord] = []
        for group in list(self._state.groups.values()):
            offsets = self._state.offsets.of_group(group.group_id)
            expired = list(self._expired(group, offsets, now))
            records += [tombstone(OffsetKey(group.group_id, *partition)) for partition in expired]
            if len(expired) == len(offsets) and group.is_idle and group.group_id in self._state.logged:
                records.append((encode_group_key(GroupKey(group.group_id)), None))
        self._write_slices(records)

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
        for partition, committed in offsets.items():
            since_ms = committed.commit_time_ms
            if since_empty and group.state_time_ms != NO_TIME:
                since_ms = group.state_time_ms
            if partition[0] not in topics and has_expired(
                committed, since_ms, self._state.limits.offsets_retention_ms, now.wall_ms
            ):
                yield partition

    def _check_commit(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, now: Moment
    ) -> None:
        if is_too_long(group_id):
            raise ApiError(ErrorCode.invalid_group_id)
        group = self._state.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise ApiError(ErrorCode.illegal_generation)
            return
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise ApiError(ErrorCode.unknown_member_id, "The group is managed; only its members may commit.")
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.illegal_generation)
        if group.state is GroupState.COMPLETING:
            raise ApiError(ErrorCode.rebalance_in_progress)
        self._rebalance.start_session(group, member, now)

    def _write_slices(self, records: list[EncodedRecord]) -> None:
        for start in range(0, len(records), _SLICE_RECORDS):
            self._state.write(records[start : start + _SLICE_RECORDS])


_SLICE_RECORDS = 500
"""Tombstones in one write: each has two names at most, so that they fit into a batch."""


def tombstone(key: OffsetKey) -> EncodedRecord:
    return encode_offset_key(key), None
