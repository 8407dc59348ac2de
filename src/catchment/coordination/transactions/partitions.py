"""AddPartitionsToTxn and AddOffsetsToTxn: which partitions a transaction writes to, known before it writes to them."""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from catchment.coordination.replayed import Producer
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import ErrorReply
from catchment.coordination.transactions.records import TopicPartition, Transaction
from catchment.coordination.transactions.shard_state import TransactionShardState, busy, fenced
from catchment.coordination.transactions.transitions import with_partitions


class Partitions:
    __slots__ = ("_state",)

    def __init__(self, state: TransactionShardState) -> None:
        self._state = state

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        client_version: int,
        reply: ErrorReply,
        now: Moment,
    ) -> None:
        """Make the partitions part of the transaction, which begins with its first one."""
        known = self._state.existing(transactional_id)
        if known.state.is_decided:
            # Before the id and the epoch are compared: what EndTxn has handed out counts once the transaction is complete.
            raise busy(transactional_id)
        self._check(transactional_id, producer, known)
        extended = with_partitions(known, partitions, client_version, now.wall_ms)
        # Partitions that are there already are written again: what added them may not be safe yet.
        self._state.log(transactional_id, extended, lambda _: reply(ErrorCode.none), lambda error, _: reply(error))

    def missing(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        """Those of the partitions that are not part of the producer's transaction (KIP-890)."""
        known = self._state.existing(transactional_id)
        # The epoch before the state, unlike `add`: who writes with an old epoch is not to wait for the markers.
        self._check(transactional_id, producer, known)
        if known.state.is_decided:
            raise busy(transactional_id)
        added = set(known.partitions)
        return [partition for partition in partitions if partition not in added]

    def _check(self, transactional_id: str, producer: Producer, known: Transaction) -> None:
        self._state.existing(transactional_id, producer.producer_id)
        if known.producer_epoch != producer.epoch:
            raise fenced(transactional_id, producer.epoch)
