"""The snapshots of a partition's producers on disk, and their state rebuilt from the newest sound one."""

from __future__ import annotations

from catchment.ports.disk import Disk, File
from catchment.protocol.batch import BatchHeader
from catchment.storage import layout, producer_snapshot
from catchment.storage.batch_scan import scan_headers
from catchment.storage.control_record import read_marker
from catchment.storage.producer_state import ProducerState
from catchment.storage.segments import Segments


class ProducerFiles:
    __slots__ = ("_directory", "_disk", "_offsets", "_written")

    def __init__(self, disk: Disk, directory: str, offsets: list[int]) -> None:
        self._disk = disk
        self._directory = directory
        self._offsets = sorted(offsets)
        self._written: dict[int, File] = {}
        """Those of this life, which may wait for a sync that need not look for them once they are removed."""

    @property
    def newest_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(self._offsets)

    def write(self, offset: int, state: ProducerState) -> File:
        """Keep the state up to `offset`; the file waits for a sync. A torn one is known by its CRC."""
        file = self._disk.open_file(self._path(offset))
        if file.size:
            file.truncate(0)
        file.append([producer_snapshot.encode(state)])
        self._written[offset] = file
        if offset not in self._offsets:
            self._offsets = sorted([*self._offsets, offset])
        return file

    def load(self, state: ProducerState, up_to_offset: int) -> int | None:
        """Replace the state by the newest sound snapshot up to that offset, and say which; clear it if there is none."""
        for offset in reversed([offset for offset in self._offsets if offset <= up_to_offset]):
            try:
                state.replace(producer_snapshot.decode(self._disk.read_file(self._path(offset))))
            except (ValueError, FileNotFoundError):
                self._remove([offset])
                continue
            return offset
        state.clear()
        return None

    def rebuild(self, state: ProducerState, segments: Segments, end_offset: int) -> None:
        """The state at `end_offset`: a snapshot, and what the log says since then."""
        start_offset = self.load(state, end_offset)
        replay(state, segments, segments.first_offset if start_offset is None else start_offset, end_offset)

    def remove_above(self, offset: int) -> None:
        self._remove([known for known in self._offsets if known > offset])

    def remove_below(self, offset: int) -> None:
        """Drop what precedes the log, but never the newest: producers may have nothing else left of them."""
        self._remove([known for known in self._offsets[:-1] if known < offset])

    def remove_all_but(self, kept: set[int]) -> None:
        self._remove([known for known in self._offsets if known not in kept])

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._disk.remove_file(self._path(offset))
            self._offsets.remove(offset)
            if offset in self._written:
                self._written.pop(offset).close()

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{layout.file_name(offset, layout.SNAPSHOT)}"


def replay(state: ProducerState, segments: Segments, start_offset: int, end_offset: int) -> None:
    """Apply the batches of a range of the log to the state. Only control batches are read beyond their header."""
    if start_offset >= end_offset:
        return
    for segment in segments.since(start_offset):
        placed = segment.find(max(start_offset, segment.base_offset)) if segment.size else None
        if placed is None:
            continue
        for position, header in scan_headers(segment.file, placed.position, segment.size):
            if header.base_offset >= end_offset:
                return
            if header.has_producer and header.base_offset >= start_offset:
                data = segment.file.read(position, header.size) if header.is_control else None
                apply(state, header, data)


def apply(state: ProducerState, header: BatchHeader, control_batch: memoryview | bytes | None) -> None:
    """Let the state know a batch that is in the log; `control_batch` is the whole batch if it is a control batch."""
    if control_batch is None:
        state.update(header, header.base_offset, header.max_timestamp_ms, header.max_timestamp_ms)
        return
    marker = read_marker(control_batch)
    if marker is not None:
        state.complete(header, marker, header.last_offset)
