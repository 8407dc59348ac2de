"""One shard of the transaction coordinator, as its runner uses it.

Commands do not change logged state: they leave records to be written. The markers of a prepared transaction go to `send`, which
calls `ending.markers_written` when all partitions have them. Sending ends with this shard: `close` stops it, and the shard that
replays the log sends the markers again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import NO_PRODUCER, EncodedRecord, Producer, ShardBase
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import ErrorReply, SendMarkers, TransactionLimits
from catchment.coordination.transactions.ending import Ending
from catchment.coordination.transactions.producers import Producers
from catchment.coordination.transactions.records import TopicPartition, Transaction, TransactionState, encode_key
from catchment.coordination.transactions.state import TransactionShardState, busy, fenced, with_partitions
from catchment.protocol.errors import ApiError


class TransactionShard(ShardBase):
    __slots__ = ("_state", "_stop_sending", "ending", "partitions", "producers", "queries")

    def __init__(
        self, limits: TransactionLimits, send: SendMarkers, stop_sending: Callable[[], None] = lambda: None
    ) -> None:
        self._stop_sending = stop_sending
        self._state = TransactionShardState(limits)
        super().__init__(self._state)
        self.ending = Ending(self._state, send)
        self.producers = Producers(self._state, self.ending)
        self.partitions = TransactionPartitions(self._state)
        self.queries = TransactionQueries(self._state)

    @property
    def state(self) -> TransactionShardState:
        return self._state

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        """Apply a record. No record of this topic belongs to a transaction."""
        self._state.replay(key, value)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """No record of this topic belongs to a transaction."""

    def loaded(self, now: Moment) -> None:
        self.ending.resume_decided()

    def close(self, error: ErrorCode) -> None:
        """Wake the requests that wait for other transactions. The runner reports the outcome of writes."""
        self._stop_sending()
        self.ending.close()


class TransactionPartitions:
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
        """Add the partitions to the transaction, which begins with its first partition."""
        known = self._state.existing(transactional_id)
        if known.state.is_decided:
            # Before the id and the epoch are compared: those that EndTxn returned are valid once the transaction is complete.
            raise busy(transactional_id)
        self._check(transactional_id, producer, known)
        extended = with_partitions(known, partitions, client_version, now.wall_ms)
        # Partitions that were added before are written again: that record may not be committed yet.
        self._state.log(transactional_id, extended, lambda _: reply(ErrorCode.none), lambda error, _: reply(error))

    def missing(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        """The partitions that are not part of the producer's transaction (KIP-890)."""
        known = self._state.existing(transactional_id)
        # The epoch is checked before the state, unlike in `add`: a producer with an old epoch must not wait for the markers.
        self._check(transactional_id, producer, known)
        if known.state.is_decided:
            raise busy(transactional_id)
        added = set(known.partitions)
        return [partition for partition in partitions if partition not in added]

    def _check(self, transactional_id: str, producer: Producer, known: Transaction) -> None:
        self._state.existing(transactional_id, producer.producer_id)
        if known.producer_epoch != producer.epoch:
            raise fenced(transactional_id, producer.epoch)


_EXPIRABLE: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_MOST_KEY_BYTES: Final = 256 * 1024
"""The size of the tombstones in one write, well below the limit of a batch."""


class TransactionQueries:
    __slots__ = ("_state",)

    def __init__(self, state: TransactionShardState) -> None:
        self._state = state

    def listing(self) -> list[tuple[str, Transaction]]:
        return list(self._state.logged.items())

    def describe(self, transactional_id: str) -> Transaction:
        known = self._state.logged.get(transactional_id)
        if known is None:
            raise ApiError(ErrorCode.transactional_id_not_found)
        return known

    def expire(self, now: Moment) -> None:
        """Delete the transactional ids that have not been used for `transactional.id.expiration.ms`."""
        oldest_ms = now.wall_ms - self._state.limits.expiration_ms
        tombstones: list[EncodedRecord] = []
        size = 0
        for transactional_id, known in self._state.logged.items():
            if known.state in _EXPIRABLE and known.update_time_ms <= oldest_ms:
                key = encode_key(transactional_id)
                tombstones.append((key, None))
                size += len(key)
                if size > _MOST_KEY_BYTES:
                    self._state.write(tombstones)
                    tombstones, size = [], 0
        if tombstones:
            self._state.write(tombstones)
