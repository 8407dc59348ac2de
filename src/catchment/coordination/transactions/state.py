"""The state of one shard of the transaction coordinator, and the transitions of a transactional id.

`logged` is logged state, and only `replay` changes it. A record is replayed as soon as it is appended, so the next command sees
it. Responses and markers that depend on a record wait until it is committed, and later records follow it in the log.

Every transition keeps the producer id that it came from: when the epochs of an id are exhausted, a client that missed the
response is still identified by that id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import Producer, ShardOutput
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import (
    FIRST_VERSION_WITH_EPOCH_BUMP,
    HIGHEST_EPOCH,
    LAST_EPOCH,
    TransactionLimits,
)
from catchment.coordination.transactions.records import (
    NO_PRODUCER_ID,
    NO_TIME,
    TopicPartition,
    Transaction,
    TransactionState,
    decode_key,
    decode_transaction,
    encode_key,
    encode_transaction,
)
from catchment.protocol.errors import ApiError


class TransactionShardState(ShardOutput):
    __slots__ = ("last_epochs", "limits", "logged", "ongoing")

    def __init__(self, limits: TransactionLimits) -> None:
        super().__init__()
        self.limits = limits
        self.logged: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        """The ids with an ongoing transaction, so that a search for timed-out ones need not visit all ids."""
        self.last_epochs: dict[str, int] = {}
        """The epoch of each producer before its last bump, so that it may repeat the request if it missed the response.

        Kafka's records do not hold it, so it is volatile: after a replay such a producer is fenced."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of the log."""
        transactional_id = decode_key(key)
        if transactional_id is None:
            return
        self.ongoing.pop(transactional_id, None)
        if value is None:
            self.logged.pop(transactional_id, None)
            self.last_epochs.pop(transactional_id, None)
            return
        transaction = self.logged[transactional_id] = decode_transaction(value)
        if transaction.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = None

    def existing(self, transactional_id: str, producer_id: int | None = None) -> Transaction:
        """The logged state of the id; ApiError if there is none, or it has another producer id."""
        if not transactional_id:
            raise ApiError(ErrorCode.invalid_request, "A transactional id cannot be empty.")
        known = self.logged.get(transactional_id)
        if known is None or producer_id not in (None, known.producer_id):
            raise ApiError(
                ErrorCode.invalid_producer_id_mapping,
                f"Producer id {producer_id} does not belong to transactional id '{transactional_id}'.",
            )
        return known

    def log(
        self,
        transactional_id: str,
        transaction: Transaction,
        committed: Callable[[Moment], None],
        failed: Callable[[ErrorCode, Moment], None],
    ) -> None:
        """Write the new state of a transactional id."""
        self.write([(encode_key(transactional_id), encode_transaction(transaction))], committed, failed)


def fenced(transactional_id: str, epoch: int) -> ApiError:
    """Another producer uses the transactional id now, or the coordinator has aborted this producer's transaction."""
    return ApiError(
        ErrorCode.producer_fenced, f"Epoch {epoch} of transactional id '{transactional_id}' is not the current one."
    )


def busy(transactional_id: str) -> ApiError:
    return ApiError(
        ErrorCode.concurrent_transactions, f"A transaction of '{transactional_id}' is still being completed."
    )


def producer_of(known: Transaction) -> Producer:
    return Producer(known.producer_id, known.producer_epoch)


def is_exhausted(epoch: int) -> bool:
    """Whether a producer id with this epoch has no epoch left for a client."""
    return epoch >= LAST_EPOCH


def new_producer(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    return Transaction(producer_id, 0, timeout_ms, TransactionState.EMPTY, (), now_ms, previous_producer_id=producer_id)


def initialized(known: Transaction, producer: Producer, timeout_ms: int, now_ms: int) -> Transaction:
    """Empty: there is no transaction, and the producer continues with this id and epoch."""
    return known._replace(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        previous_producer_id=known.producer_id,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=(),
        update_time_ms=now_ms,
        start_time_ms=NO_TIME,
    )


def with_partitions(
    known: Transaction, added: Iterable[TopicPartition], client_version: int, now_ms: int
) -> Transaction:
    """Ongoing: the current transaction, or a new one, with more partitions."""
    is_ongoing = known.state is TransactionState.ONGOING
    return known._replace(
        previous_producer_id=known.producer_id,
        state=TransactionState.ONGOING,
        partitions=tuple(sorted({*known.partitions, *added})),
        update_time_ms=now_ms,
        start_time_ms=known.start_time_ms if is_ongoing else now_ms,
        client_version=client_version,
    )


def decided(
    known: Transaction, is_commit: bool, client_version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """Prepared: the outcome is decided. Since version 2 the markers carry the next epoch, which fences delayed writes."""
    bumps_epoch = client_version >= FIRST_VERSION_WITH_EPOCH_BUMP
    # A log that Kafka wrote may hold the highest epoch: such a transaction can still end.
    epoch = min(known.producer_epoch + 1, HIGHEST_EPOCH) if bumps_epoch else known.producer_epoch
    is_ongoing = known.state is TransactionState.ONGOING
    return known._replace(
        producer_epoch=epoch,
        previous_producer_id=known.producer_id,
        next_producer_id=next_producer_id,
        state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        update_time_ms=now_ms,
        # An abort without any partition has no other start time.
        start_time_ms=known.start_time_ms if is_ongoing else now_ms,
        client_version=client_version,
    )


def completed(known: Transaction, now_ms: int) -> Transaction:
    """Complete: every partition has its marker."""
    producer = producer_of(known)
    if known.next_producer_id != NO_PRODUCER_ID:
        producer = Producer(known.next_producer_id, 0)
    is_commit = known.state is TransactionState.PREPARE_COMMIT
    return known._replace(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        previous_producer_id=known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=(),
        update_time_ms=now_ms,
    )
