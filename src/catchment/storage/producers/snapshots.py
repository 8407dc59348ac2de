"""Producer snapshots: the producers of a partition on disk, and their state rebuilt from the newest valid snapshot.

The format is Kafka's: version, CRC-32C of what follows, and one entry for each producer with its last batch alone. A snapshot is
named for the offset that it is complete up to, written at each roll and at a clean stop, and ignored if its CRC does not match.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from catchment.ports.disk import Disk, File
from catchment.protocol.batch import NO_SEQUENCE, BatchHeader
from catchment.protocol.checksum import crc32c
from catchment.storage import layout
from catchment.storage.control_record import read_marker
from catchment.storage.producers.state import BatchMetadata, ProducerEntry, ProducerState
from catchment.storage.segments.batch_scan import scan_headers
from catchment.storage.segments.segment_list import LogSegments

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class ProducerSnapshots:
    __slots__ = ("_directory", "_disk", "_offsets", "_written")

    def __init__(self, disk: Disk, directory: str, offsets: list[int]) -> None:
        self._disk = disk
        self._directory = directory
        self._offsets = sorted(offsets)
        self._written: dict[int, File] = {}
        """Files written since the start, which may be unsynced: a sync skips them once they are removed and closed."""

    @property
    def newest_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(self._offsets)

    def write(self, offset: int, state: ProducerState) -> File:
        """Write the state up to `offset`; the file is then unsynced. A torn one fails its CRC."""
        file = self._disk.open_file(self._path(offset))
        if file.size:
            file.truncate(0)
        file.append([encode_snapshot(state)])
        self._written[offset] = file
        if offset not in self._offsets:
            self._offsets = sorted([*self._offsets, offset])
        return file

    def load(self, state: ProducerState, up_to_offset: int) -> int | None:
        """Replace the state by the newest valid snapshot up to that offset, and return its offset; clear it if there is none."""
        for offset in reversed([offset for offset in self._offsets if offset <= up_to_offset]):
            try:
                state.replace(decode_snapshot(self._disk.read_file(self._path(offset))))
            except (ValueError, FileNotFoundError):
                self._remove([offset])
                continue
            return offset
        state.clear()
        return None

    def rebuild(self, state: ProducerState, segments: LogSegments, end_offset: int) -> None:
        """Make it the state at `end_offset`: a snapshot, and the batches since then."""
        start_offset = self.load(state, end_offset)
        replay(state, segments, segments.first_offset if start_offset is None else start_offset, end_offset)

    def remove_above(self, offset: int) -> None:
        self._remove([known for known in self._offsets if known > offset])

    def remove_below(self, offset: int) -> None:
        """Remove what precedes the log, but never the newest: nothing else may be left of some producers."""
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


def replay(state: ProducerState, segments: LogSegments, start_offset: int, end_offset: int) -> None:
    """Apply the batches of a range of the log to the state. Only control batches are read beyond their header."""
    if start_offset >= end_offset:
        return
    for segment in segments.since(start_offset):
        located = segment.find(max(start_offset, segment.base_offset)) if segment.size else None
        if located is None:
            continue
        for position, header in scan_headers(segment.file, located.position, segment.size):
            if header.base_offset >= end_offset:
                return
            if header.has_producer and header.base_offset >= start_offset:
                data = segment.file.read(position, header.size) if header.is_control else None
                apply(state, header, data)


def apply(state: ProducerState, header: BatchHeader, control_batch: memoryview | bytes | None) -> None:
    """Apply a batch that is in the log; `control_batch` is the whole batch if it is a control batch."""
    if control_batch is None:
        state.update(header, header.base_offset, header.max_timestamp_ms, header.max_timestamp_ms)
        return
    marker = read_marker(control_batch)
    if marker is not None:
        state.complete(header, marker, header.last_offset)


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [_encode_entry(entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The entries, or ValueError if the snapshot is torn."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise ValueError(f"a snapshot of {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"snapshot version {version}")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != crc:
        raise ValueError("snapshot CRC mismatch")
    entries = body[_COUNT.size :]
    if entries.nbytes != _COUNT.unpack_from(body)[0] * _ENTRY.size:
        raise ValueError("snapshot length mismatch")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(entries)]


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, -1, 0, -1)
    first_offset = entry.transaction_first_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        -1 if first_offset is None else first_offset,
    )


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first_offset = fields
    entry = ProducerEntry(producer_id)
    entry.epoch = epoch
    entry.last_timestamp_ms = timestamp_ms
    entry.coordinator_epoch = coordinator_epoch
    if last_offset >= 0:
        entry.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp_ms))
    if first_offset >= 0:
        entry.transaction_first_offset = first_offset
    return entry
