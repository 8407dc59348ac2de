"""What a partition remembers of one producer: its epoch, its last five batches and its open transaction."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from catchment.protocol.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader

BATCHES_REMEMBERED = 5
NO_COORDINATOR_EPOCH = -1
_SEQUENCE_MASK = 0x7FFFFFFF


class RememberedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        """Sequences wrap at 2³¹ − 1."""
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.batches: deque[RememberedBatch] = deque(maxlen=BATCHES_REMEMBERED)
        self.last_timestamp_ms = -1
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.transaction_first_offset: int | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def duplicate_of(self, header: BatchHeader) -> RememberedBatch | None:
        """The batch that the producer sends once more, if it is one of the last five."""
        if header.producer_epoch != self.epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def raise_epoch(self, epoch: int) -> None:
        """A new epoch starts with a clean sheet of sequences."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


def follows(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == (last_sequence + 1) & _SEQUENCE_MASK
