"""The segments of a log in the order of their offsets, and the delayed deletion of those that have left it."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from catchment.ports.disk import Disk, TornWrite
from catchment.storage import layout
from catchment.storage.segments.segment import LogSegment


class Cut(NamedTuple):
    """Where to truncate a log: in which segment, at which position of its file, and where the log then ends."""

    segment: LogSegment
    position: int
    end_offset: int


class LogSegments:
    __slots__ = ("_bases", "_deleted", "_disk", "_items", "directory")

    def __init__(self, disk: Disk, directory: str, items: Sequence[LogSegment]) -> None:
        self._disk = disk
        self._items = list(items)
        self._bases = [segment.base_offset for segment in self._items]
        self._deleted: deque[tuple[int, list[str]]] = deque()
        self.directory = directory

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._items)

    def __getitem__(self, index: int) -> LogSegment:
        return self._items[index]

    @property
    def active(self) -> LogSegment:
        return self._items[-1]

    @property
    def first_offset(self) -> int:
        return self._bases[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._items)

    def index_of(self, offset: int) -> int:
        """The position of the segment that `offset` belongs to; the first one for anything before it."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def since(self, offset: int) -> list[LogSegment]:
        """The segments from the one that `offset` belongs to."""
        return self._items[self.index_of(offset) :]

    def next_base(self, index: int) -> int | None:
        return self._bases[index + 1] if index + 1 < len(self._bases) else None

    def find_cut(self, offset: int) -> Cut:
        """Where a log that must not hold `offset` or later ends: a batch that holds it goes whole."""
        segment = self._items[self.index_of(offset)]
        located = segment.find(offset)
        if located is None:
            return Cut(segment, segment.size, offset)
        return Cut(segment, located.position, min(offset, located.header.base_offset))

    def create(self, base_offset: int, now_ms: int) -> LogSegment:
        """Add an empty segment at the end; its file exists on return.

        OSError leaves no file. An empty one among the offsets of the active segment would hide those above it; TornWrite if it
        cannot be removed.
        """
        segment = LogSegment(self._disk, self.directory, base_offset, now_ms, None)
        try:
            if segment.file.size:
                segment.file.truncate(0)
        except OSError as error:
            try:
                self._disk.remove_file(segment.path(layout.LOG))
            except OSError as failure:
                raise TornWrite(f"{segment.path(layout.LOG)} cannot be removed: {failure}") from error
            raise
        self._items.append(segment)
        self._bases.append(base_offset)
        return segment

    def remove(self, segment: LogSegment, due_ms: int) -> None:
        """Remove a segment from the log. Its files keep their bytes under another name until `due_ms`.

        The log file goes first: without it the others are leftovers that the next start removes. OSError leaves the
        segment in the log, or out of it with such leftovers.
        """
        renamed: list[str] = []
        try:
            for suffix in layout.SEGMENT_SUFFIXES:
                path = segment.path(suffix)
                with contextlib.suppress(FileNotFoundError):
                    self._disk.rename(path, path + layout.DELETED)
                    renamed.append(path + layout.DELETED)
                if suffix == layout.LOG:
                    index = self._items.index(segment)
                    del self._items[index]
                    del self._bases[index]
                    segment.close()
        finally:
            self._delete_later(renamed, due_ms)

    def replace(self, old: Sequence[LogSegment], new: LogSegment, deleted: list[str], due_ms: int) -> None:
        """Replace several segments by the one that was made of them; `deleted` are the old files, to be kept until `due_ms`."""
        first = self._items.index(old[0])
        self._items[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]
        for segment in old:
            segment.close()
        self._delete_later(deleted, due_ms)

    def _delete_later(self, paths: list[str], due_ms: int) -> None:
        if paths:
            self._deleted.append((due_ms, paths))

    def remove_deleted(self, now_ms: int) -> int:
        """Delete the files whose time has come; the number of them."""
        count = 0
        while self._deleted and self._deleted[0][0] <= now_ms:
            for path in self._deleted[0][1]:
                self._disk.remove_file(path)
                count += 1
            self._deleted.popleft()
        return count

    def close(self) -> None:
        for segment in self._items:
            segment.close()
