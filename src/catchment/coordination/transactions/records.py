"""The records of `__transaction_state`, in Kafka's own formats: one key for each transactional id, with all its state.

We write what Kafka 4.3 writes with `transaction.version` 2 (values of version 1, the first flexible one) and read both
versions there are. Keys of other versions decode to None.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final, NamedTuple

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import NO_TAGS, WireReader, array_length, string, tagged_fields

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">hqhib")
_TIMES: Final = struct.Struct(">qq")

_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 1
_PREVIOUS_PRODUCER_ID_TAG: Final = 0
_NEXT_PRODUCER_ID_TAG: Final = 1
_CLIENT_VERSION_TAG: Final = 2
_SMALLEST_TOPIC_BYTES: Final = 3

NO_PRODUCER_ID: Final = -1
NO_TIME: Final = -1

TopicPartition = tuple[str, int]


class TransactionState(Enum):
    """The state of a transaction, with Kafka's number for it in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """The state as Kafka's clients and tools spell it."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_decided(self) -> bool:
        """Whether the outcome is decided, but partitions may still lack their marker."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class Transaction(NamedTuple):
    """The logged state of one transactional id."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...]
    """In order, each once."""
    update_time_ms: int
    start_time_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The id that follows once the transaction is complete, because the epochs of this one are exhausted."""
    client_version: int = 0
    """The transaction version (KIP-890) of the client in the last transition."""


def encode_key(transactional_id: str) -> bytes:
    return _I16.pack(_KEY_VERSION) + string(transactional_id, flexible=False)


def encode_transaction(transaction: Transaction) -> bytes:
    state = transaction.state
    tags: dict[int, bytes] = {}
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        tags[_PREVIOUS_PRODUCER_ID_TAG] = _I64.pack(transaction.previous_producer_id)
    if transaction.next_producer_id != NO_PRODUCER_ID:
        tags[_NEXT_PRODUCER_ID_TAG] = _I64.pack(transaction.next_producer_id)
    if transaction.client_version:
        tags[_CLIENT_VERSION_TAG] = _I16.pack(transaction.client_version)
    return b"".join(
        (
            _HEAD.pack(
                _VALUE_VERSION,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.timeout_ms,
                state.value,
            ),
            # Kafka writes null, not an empty array, for a producer without a transaction.
            b"\x00" if state is TransactionState.EMPTY else _encode_partitions(transaction.partitions),
            _TIMES.pack(transaction.update_time_ms, transaction.start_time_ms),
            tagged_fields(tags),
        )
    )


def decode_key(key: bytes) -> str | None:
    """The transactional id of a record; None for keys of other versions."""
    reader = WireReader(memoryview(key), 0, flexible=False)
    try:
        return reader.string() if reader.i16() == _KEY_VERSION else None
    except MalformedRequest as error:
        raise UnreadableRecord(f"a key of a transaction: {error}") from error


def decode_transaction(value: bytes) -> Transaction:
    (version,) = _I16.unpack_from(value) if len(value) >= _I16.size else (-1,)
    if not 0 <= version <= _VALUE_VERSION:
        raise UnreadableRecord(f"a transaction of version {version}")
    reader = WireReader(memoryview(value), 0, flexible=version >= _VALUE_VERSION)
    try:
        _, producer_id, producer_epoch, timeout_ms, state = reader.unpack(_HEAD)
        partitions = _read_partitions(reader)
        update_time_ms, start_time_ms = reader.unpack(_TIMES)
        tags = _read_tags(reader)
        return Transaction(
            producer_id,
            producer_epoch,
            timeout_ms,
            TransactionState(state),
            partitions,
            update_time_ms,
            start_time_ms,
            tags.get(_PREVIOUS_PRODUCER_ID_TAG, NO_PRODUCER_ID),
            tags.get(_NEXT_PRODUCER_ID_TAG, NO_PRODUCER_ID),
            tags.get(_CLIENT_VERSION_TAG, 0),
        )
    except (MalformedRequest, ValueError, struct.error) as error:
        raise UnreadableRecord(f"a transaction: {error}") from error


def _encode_partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    pieces = [array_length(len(by_topic), flexible=True)]
    for topic, numbers in by_topic.items():
        pieces += (string(topic, flexible=True), array_length(len(numbers), flexible=True))
        pieces += [_I32.pack(number) for number in numbers]
        pieces.append(NO_TAGS)
    return b"".join(pieces)


def _read_partitions(reader: WireReader) -> tuple[TopicPartition, ...]:
    found: list[TopicPartition] = []
    for _ in range(reader.array_length(_SMALLEST_TOPIC_BYTES)):
        topic = reader.string()
        found += [(topic, reader.i32()) for _ in range(reader.array_length(_I32.size))]
        reader.skip_tags()
    return tuple(sorted(found))


def _read_tags(reader: WireReader) -> dict[int, int]:
    """The values of the known tagged fields."""
    layouts = {_PREVIOUS_PRODUCER_ID_TAG: _I64, _NEXT_PRODUCER_ID_TAG: _I64, _CLIENT_VERSION_TAG: _I16}
    found: dict[int, int] = {}
    for _ in range(reader.unsigned_varint() if reader.flexible else 0):
        number, data = reader.tag()
        if number in layouts:
            (found[number],) = layouts[number].unpack(data)
    return found
