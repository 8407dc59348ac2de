"""The leader epoch cache: where each epoch began. Followers and consumers compare it to find where logs diverge (KIP-101, KIP-279).

Batches carry their epoch, so recovery can rebuild the entries above the recovery point. The file is therefore written after a
segment is finished and at a clean stop, not at every change. Until it is, the recovery point stays before that segment.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from catchment.ports.disk import Disk, Replacement
from catchment.storage import checkpoint

NO_EPOCH = -1
NO_OFFSET = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    __slots__ = ("_changes", "_disk", "_entries", "_flushed", "_flushing", "_path", "latest")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._entries: list[EpochStart] = []
        self._changes = self._flushed = self._flushing = 0
        self.latest = NO_EPOCH

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def load(self) -> None:
        entries: list[EpochStart] = []
        for line in checkpoint.read_lines(self._disk, self._path):
            try:
                epoch, start_offset = map(int, line.split(" "))
            except ValueError:
                break
            if entries and (epoch <= entries[-1].epoch or start_offset < entries[-1].start_offset):
                break
            entries.append(EpochStart(epoch, start_offset))
        self._replace(entries)
        self._flushed = self._changes

    @property
    def is_dirty(self) -> bool:
        """Whether the file lacks a change."""
        return self._flushed != self._changes

    def flush(self) -> None:
        """Make the entries durable, and block the caller until they are."""
        if self.is_dirty:
            self._disk.replace_file(*self.begin_flush())
            self.end_flush()

    def begin_flush(self) -> Replacement:
        """What the file is to hold; `end_flush` once it does."""
        self._flushing = self._changes
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in self._entries]
        return Replacement(self._path, checkpoint.encode_lines(lines))

    def end_flush(self) -> None:
        """The file holds what `begin_flush` returned; changes since then are still missing."""
        self._flushed = self._flushing

    def assign(self, epoch: int, start_offset: int) -> None:
        """An epoch begins; entries that contradict it are stale and removed."""
        if epoch <= self.latest:
            return
        kept = [entry for entry in self._entries if entry.start_offset < start_offset]
        self._replace([*kept, EpochStart(epoch, start_offset)])

    def at(self, offset: int) -> int:
        """The epoch under which `offset` was written, or -1."""
        index = bisect_right(self._entries, offset, key=_start)
        return self._entries[index - 1].epoch if index else NO_EPOCH

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch that is not above `epoch`, and where it ended; (-1, -1) if that is not known."""
        if epoch == NO_EPOCH or epoch > self.latest or not self._entries:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        index = bisect_right(self._entries, epoch, key=_epoch)
        if index == 0:
            # Everything of that epoch is deleted. It ended where the first entry begins, or earlier.
            return epoch, self._entries[0].start_offset
        return self._entries[index - 1].epoch, self._entries[index].start_offset

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that began at `end_offset` or later."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._replace([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended before `start_offset`; the one that contains it begins there from now on."""
        index = bisect_right(self._entries, start_offset, key=_start)
        if index and self._entries[index - 1].start_offset < start_offset:
            current = EpochStart(self._entries[index - 1].epoch, start_offset)
            self._replace([current, *self._entries[index:]])
        elif index > 1:
            self._replace(self._entries[index - 1 :])

    def clear(self) -> None:
        self._replace([])

    def _replace(self, entries: list[EpochStart]) -> None:
        self._entries = entries
        self._changes += 1
        self.latest = entries[-1].epoch if entries else NO_EPOCH


def _start(entry: EpochStart) -> int:
    return entry.start_offset


def _epoch(entry: EpochStart) -> int:
    return entry.epoch
