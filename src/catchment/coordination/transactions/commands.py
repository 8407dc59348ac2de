"""What a shard of the transaction coordinator is asked, and how it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.records import TopicPartition
from catchment.protocol.errors import ApiError

NO_PRODUCER: Final = Producer(-1, -1)
LAST_EPOCH: Final = 32_766
"""The last epoch that a client may use; one more is left to fence it."""
HIGHEST_EPOCH: Final = LAST_EPOCH + 1
FIRST_VERSION_WITH_EPOCH_BUMP: Final = 2
"""Since version 2 of transactions every end raises the epoch (KIP-890)."""


class TransactionLimits(NamedTuple):
    """The settings that transactions obey."""

    max_timeout_ms: int = 900_000
    expiration_ms: int = 604_800_000


class InitRequest(NamedTuple):
    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    """Who the producer is already, if it wants to go on after an error (KIP-360)."""


class EndRequest(NamedTuple):
    transactional_id: str
    producer: Producer
    is_commit: bool
    client_version: int
    """The transaction version that the client speaks: 2 since EndTxn 5."""


class ProducerAnswer(NamedTuple):
    """The outcome, and with what id and epoch the producer goes on where it is to be told."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER


class MarkersToWrite(NamedTuple):
    """A decided transaction whose partitions are to be told; safe in the log before it gets here."""

    transactional_id: str
    producer: Producer
    is_commit: bool
    client_version: int
    partitions: tuple[TopicPartition, ...]


class FreshProducerIdNeeded(ApiError):
    """Nothing was done: the command has to come again with a producer id that nobody has used."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.coordinator_not_available)


ProducerReply = Callable[[ProducerAnswer], None]
ErrorReply = Callable[[ErrorCode], None]
SendMarkers = Callable[[MarkersToWrite], None]


def require_fresh(producer_id: int | None) -> int:
    if producer_id is None:
        raise FreshProducerIdNeeded
    return producer_id
