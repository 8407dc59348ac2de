"""The requests and responses of a shard of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.records import TopicPartition
from catchment.protocol.errors import ApiError

NO_PRODUCER: Final = Producer(-1, -1)
LAST_EPOCH: Final = 32_766
"""The last epoch that a client may use. One more is reserved for fencing it."""
HIGHEST_EPOCH: Final = LAST_EPOCH + 1
FIRST_VERSION_WITH_EPOCH_BUMP: Final = 2
"""Since transaction version 2 every EndTxn bumps the epoch (KIP-890)."""


class TransactionLimits(NamedTuple):
    """The settings of transactions."""

    max_timeout_ms: int = 900_000
    expiration_ms: int = 604_800_000


class InitRequest(NamedTuple):
    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    """The current producer id and epoch, if the producer recovers from an error (KIP-360)."""


class EndRequest(NamedTuple):
    transactional_id: str
    producer: Producer
    is_commit: bool
    client_version: int
    """The transaction version of the client: 2 since EndTxn 5."""


class ProducerResponse(NamedTuple):
    """The error code, and the id and epoch that the producer continues with."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER


class MarkersToWrite(NamedTuple):
    """The markers of a prepared transaction, whose decision is committed to the log."""

    transactional_id: str
    producer: Producer
    is_commit: bool
    client_version: int
    partitions: tuple[TopicPartition, ...]


class FreshProducerIdNeeded(ApiError):
    """Nothing was done: the command has to be repeated with a new producer id."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.coordinator_not_available)


ProducerReply = Callable[[ProducerResponse], None]
ErrorReply = Callable[[ErrorCode], None]
SendMarkers = Callable[[MarkersToWrite], None]


def require_fresh(producer_id: int | None) -> int:
    if producer_id is None:
        raise FreshProducerIdNeeded
    return producer_id
