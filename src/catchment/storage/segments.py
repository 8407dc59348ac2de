"""The segments of a log in order of their offsets, and the slow removal of those that it no longer needs."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

from catchment.ports.disk import Disk
from catchment.storage import layout
from catchment.storage.segment import Segment


class Segments:
    __slots__ = ("_bases", "_deleted", "_disk", "_items", "directory")

    def __init__(self, disk: Disk, directory: str, items: Sequence[Segment]) -> None:
        self._disk = disk
        self._items = list(items)
        self._bases = [segment.base_offset for segment in self._items]
        self._deleted: deque[tuple[int, list[str]]] = deque()
        self.directory = directory

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __getitem__(self, index: int) -> Segment:
        return self._items[index]

    @property
    def active(self) -> Segment:
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

    def since(self, offset: int) -> list[Segment]:
        """The segments from the one that `offset` belongs to."""
        return self._items[self.index_of(offset) :]

    def next_base(self, index: int) -> int | None:
        return self._bases[index + 1] if index + 1 < len(self._bases) else None

    def create(self, base_offset: int, now_ms: int) -> Segment:
        """Add an empty segment at the end; its file exists on return. OSError may leave a file behind, for `discard`."""
        segment = Segment(self._disk, self.directory, base_offset, now_ms, None)
        if segment.file.size:
            segment.file.truncate(0)
        self._items.append(segment)
        self._bases.append(base_offset)
        return segment

    def discard(self, base_offset: int) -> None:
        """Remove the file of a segment that could not be created."""
        self._disk.remove_file(f"{self.directory}/{layout.file_name(base_offset, layout.LOG)}")

    def remove(self, segment: Segment, due_ms: int) -> None:
        """Take a segment out of the log. Its files keep their bytes under another name until `due_ms`.

        The log file goes first: without it the others are leftovers that the next start clears away. OSError leaves the
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
            self.remove_files_later(renamed, due_ms)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put one segment in the place of several that it was made from; the files are the caller's business."""
        first = self._items.index(old[0])
        self._items[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]

    def remove_files_later(self, paths: list[str], due_ms: int) -> None:
        """Keep files that have left the log until `due_ms`."""
        if paths:
            self._deleted.append((due_ms, paths))

    def remove_deleted(self, now_ms: int) -> int:
        """Free the space of segments removed long enough ago; how many files went."""
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
