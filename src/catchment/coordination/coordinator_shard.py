"""What the shards of all coordinators have in common: they return records, and only replaying records changes logged state.

A shard never writes. It leaves `Write`s in its `ShardOutput`. The runner appends them, replays them at once, and reports the
outcome when it is known. A shard has no clock either: every call passes the time, and `next_deadline_ms` is the next timer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from catchment.coordination.timers import Moment, Timers

EncodedRecord = tuple[bytes, bytes | None]

NO_PRODUCER: Final = -1
MAX_NAME_BYTES: Final = 32_000
"""Strings in record keys have a length of 16 bits. Newer requests can carry longer ones."""


class UnreadableRecord(Exception):
    """A record with a known key, in a version or form that cannot be read."""


class Producer(NamedTuple):
    """The transactional producer that records are written for."""

    producer_id: int
    epoch: int


class Write(NamedTuple):
    """Records to append in one batch, and the callbacks for when they are committed or could not be written."""

    records: list[EncodedRecord]
    committed: Callable[[Moment], None]
    failed: Callable[[ErrorCode, Moment], None]
    producer: Producer | None = None
    """The records belong to the open transaction of this producer, and take effect once it commits."""


class CoordinatorShard(Protocol):
    """The part of a coordinator whose records lie in one partition, as the runner uses it."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When to call `run_timers` next, by the monotonic clock; None while no timer is set."""

    def take_writes(self) -> list[Write]:
        """The writes of the last calls, in order."""

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        """Apply a record of the log; with a producer, once its transaction has committed."""

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Apply the marker that ends the producer's transaction."""

    def loaded(self, now: Moment) -> None:
        """Start timers and resume work once all of the log is replayed."""

    def run_timers(self, now: Moment) -> None:
        """Run the timers that are due."""

    def close(self, error: ErrorCode) -> None:
        """Answer all waiting requests with the error: the shard is unloaded."""


def _nothing(_: Moment) -> None:
    return


def _nothing_failed(_: ErrorCode, __: Moment) -> None:
    return


class ShardOutput:
    """What a shard asks of its runner: records to write and timers to run."""

    __slots__ = ("_writes", "timers")

    def __init__(self) -> None:
        self.timers = Timers()
        self._writes: list[Write] = []

    def write(
        self,
        records: list[EncodedRecord],
        committed: Callable[[Moment], None] = _nothing,
        failed: Callable[[ErrorCode, Moment], None] = _nothing_failed,
        producer: Producer | None = None,
    ) -> None:
        self._writes.append(Write(records, committed, failed, producer))

    def take_writes(self) -> list[Write]:
        writes, self._writes = self._writes, []
        return writes


class ShardBase:
    """The methods of a shard that read its output."""

    __slots__ = ("_output",)

    def __init__(self, output: ShardOutput) -> None:
        self._output = output

    @property
    def next_deadline_ms(self) -> int | None:
        return self._output.timers.next_deadline_ms

    def take_writes(self) -> list[Write]:
        return self._output.take_writes()

    def run_timers(self, now: Moment) -> None:
        self._output.timers.run_due(now)


def is_too_long(text: str | None) -> bool:
    """Whether a record cannot hold the text and the suffix that a member id adds to it."""
    return text is not None and len(text.encode()) > MAX_NAME_BYTES
