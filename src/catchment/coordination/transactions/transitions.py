"""From one logged state of a transactional id to the next.

Every transition notes the producer id that it came from: when the epochs of an id are used up, a client that missed the answer
still knows itself by that one.
"""

from __future__ import annotations

from collections.abc import Iterable

from catchment.coordination.replayed import Producer
from catchment.coordination.transactions.commands import FIRST_VERSION_WITH_EPOCH_BUMP, HIGHEST_EPOCH, LAST_EPOCH
from catchment.coordination.transactions.records import (
    NO_PRODUCER_ID,
    NO_TIME,
    TopicPartition,
    Transaction,
    TransactionState,
)


def producer_of(known: Transaction) -> Producer:
    return Producer(known.producer_id, known.producer_epoch)


def is_exhausted(epoch: int) -> bool:
    """Whether a producer id with this epoch has no other epoch left to give to a client."""
    return epoch >= LAST_EPOCH


def new_producer(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    return Transaction(producer_id, 0, timeout_ms, TransactionState.EMPTY, (), now_ms, previous_producer_id=producer_id)


def initialized(known: Transaction, producer: Producer, timeout_ms: int, now_ms: int) -> Transaction:
    """Nothing is under way, and the producer goes on with this id and epoch."""
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
    """The transaction under way, or a new one, with more partitions."""
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
    """The outcome is fixed; since version 2 the markers bear the next epoch, which fences whatever is still on its way."""
    raises_epoch = client_version >= FIRST_VERSION_WITH_EPOCH_BUMP
    # A log that Kafka wrote may hold the highest epoch there is: such a transaction can still end.
    epoch = min(known.producer_epoch + 1, HIGHEST_EPOCH) if raises_epoch else known.producer_epoch
    is_ongoing = known.state is TransactionState.ONGOING
    return known._replace(
        producer_epoch=epoch,
        previous_producer_id=known.producer_id,
        next_producer_id=next_producer_id,
        state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        update_time_ms=now_ms,
        # An abort without any partition has no other start than its end.
        start_time_ms=known.start_time_ms if is_ongoing else now_ms,
        client_version=client_version,
    )


def completed(known: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker."""
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
