"""What the shards of all coordinators have in common: they decide, and only replaying what was written changes what is logged.

A shard never writes. It leaves `Write`s in its `ShardOutput`, and whoever runs it appends them, replays them at once, and
tells the outcome when it is known. Nor does it look at a clock: it is told the time, and says when it wants to be woken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from catchment.coordination.timers import Moment, Timers

EncodedRecord = tuple[bytes, bytes | None]

NO_PRODUCER: Final = -1
MAX_NAME_BYTES: Final = 32_000
"""Strings in records have a length of 16 bits; newer requests can carry longer ones."""


class UnreadableRecord(Exception):
    """A record of a kind that we know, in a form that we do not."""


class Producer(NamedTuple):
    """The transactional producer on whose behalf records are written."""

    producer_id: int
    epoch: int


class Write(NamedTuple):
    """Records to append together, and what to do when they are safe, or when they are known not to be written."""

    records: list[EncodedRecord]
    committed: Callable[[Moment], None]
    failed: Callable[[ErrorCode, Moment], None]
    producer: Producer | None = None
    """Whose open transaction the records belong to: they count once it commits."""


class CoordinatorShard(Protocol):
    """One partition's worth of a coordinator, as whoever runs it sees it."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When `run_timers` wants to be called, by the steady clock; None while nobody waits for anything."""

    def take_writes(self) -> list[Write]:
        """What the last calls want to be written, in order."""

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        """Take on what a record of the log says; with a producer, once its transaction has committed."""

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Take on the marker that ends the producer's transaction."""

    def loaded(self, now: Moment) -> None:
        """All of the log is replayed: begin to live."""

    def run_timers(self, now: Moment) -> None:
        """Do what is due."""

    def close(self, error: ErrorCode) -> None:
        """Answer everybody who waits: this shard will not."""


def _nothing(_: Moment) -> None:
    return


def _nothing_failed(_: ErrorCode, __: Moment) -> None:
    return


class ShardOutput:
    """What a shard wants from whoever runs it: records to be written, and to be woken in time."""

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


def is_too_long(text: str | None) -> bool:
    """Whether a record cannot hold the text, with room for what a member's id adds to it."""
    return text is not None and len(text.encode()) > MAX_NAME_BYTES
