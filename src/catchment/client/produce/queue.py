"""The batches of one partition on their way to its leader: in order, each until it is acknowledged, none twice.

A batch keeps its sequence numbers for all attempts, so the broker detects duplicates (KIP-98). When an attempt fails, nothing
more is sent until all requests in flight have a response; then the failed batches are sent first, in order. This module
does no I/O.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

_SEQUENCES: Final = 2**31
"""Sequence numbers wrap around to 0 at this number."""


class ProducerBatch(NamedTuple):
    """One encoded batch."""

    data: bytes
    record_count: int
    base_sequence: int
    deadline_s: float


class Verdict(Enum):
    """What a response means for a batch."""

    WRITTEN = auto()
    RETRY = auto()
    FAILED = auto()


class Written(NamedTuple):
    """The acknowledged records of one partition. Records of other producers may be between them."""

    first_offset: int
    """-1 if the broker only reported that it had the records already."""
    end_offset: int
    record_count: int


class PartitionQueue:
    """The batches to be sent to one partition."""

    def __init__(self) -> None:
        self.next_sequence = 0
        self.written: Written | None = None
        self._is_known = False
        self._waiting: deque[ProducerBatch] = deque()
        self._in_flight: list[ProducerBatch] = []
        self._failed: list[ProducerBatch] = []

    @property
    def is_done(self) -> bool:
        return not (self._waiting or self._in_flight or self._failed)

    @property
    def is_sendable(self) -> bool:
        """Whether a batch may be sent now: one is queued, the broker has state of the producer, and no failed batch waits for a retry."""
        # A broker without state of a producer accepts any sequence number as its first. So the first batch is sent alone:
        # if it failed and the next one did not, it could never be written.
        return bool(self._waiting) and not self._failed and (self._is_known or not self._in_flight)

    @property
    def first_waiting(self) -> ProducerBatch:
        return self._waiting[0]

    def add(self, batch: ProducerBatch) -> None:
        """Queue a batch that was encoded with `next_sequence`."""
        self._waiting.append(batch)
        self.next_sequence = (self.next_sequence + batch.record_count) % _SEQUENCES

    def take(self) -> ProducerBatch:
        """Remove and return the next batch, which is in flight from now on."""
        batch = self._waiting.popleft()
        self._in_flight.append(batch)
        return batch

    def judge(self, code: ErrorCode) -> Verdict:
        """What an error code means for a batch in flight."""
        if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            return Verdict.WRITTEN
        # A gap in the sequence is expected while the batch before it waits for its retry.
        if code.retriable or (code is ErrorCode.out_of_order_sequence_number and self._failed):
            return Verdict.RETRY
        return Verdict.FAILED

    def acknowledge(self, batch: ProducerBatch, base_offset: int) -> None:
        self._in_flight.remove(batch)
        self._is_known = True
        end_offset = base_offset + batch.record_count if base_offset >= 0 else -1
        if self.written is None:
            self.written = Written(base_offset, end_offset, batch.record_count)
        else:
            known = self.written
            self.written = Written(
                known.first_offset, max(known.end_offset, end_offset), known.record_count + batch.record_count
            )
        self._requeue()

    def retry(self, batch: ProducerBatch) -> None:
        """Send a batch again, once all requests in flight have a response."""
        self._in_flight.remove(batch)
        self._failed.append(batch)
        self._requeue()

    def clear(self) -> None:
        """Drop all batches that are not acknowledged, for example when a transaction is aborted."""
        self._waiting.clear()
        self._in_flight.clear()
        self._failed.clear()

    def _requeue(self) -> None:
        if self._failed and not self._in_flight:
            # Responses on one connection are in order, but batches may have failed on two.
            first = self._failed[0].base_sequence
            self._failed.sort(key=lambda batch: (batch.base_sequence - first + _SEQUENCES // 2) % _SEQUENCES)
            self._waiting.extendleft(reversed(self._failed))
            self._failed.clear()
