"""Put a cleaned segment in the place of those it was made from, so that a crash leaves either the old ones or the new one.

The names change in Kafka's order: `.cleaned` to `.swap`, the old files to `.deleted`, `.swap` to nothing. While some file
is still `.cleaned`, a start drops the new segment; once all are `.swap`, a start finishes the work (`leftovers`).
"""

from __future__ import annotations

from collections.abc import Sequence

from catchment.ports.disk import Disk
from catchment.storage import layout
from catchment.storage.compaction import CleanedSegment, CompactionJob, SourceSegment
from catchment.storage.log import Log
from catchment.storage.segment import Segment


def find_sources(log: Log, job: CompactionJob, group: Sequence[SourceSegment]) -> list[Segment] | None:
    """The segments of a group as the log has them; None if retention or a truncation has changed them since."""
    segments = log.segments
    if log.is_offline or log.truncations != job.truncations:
        return None
    first = segments.index_of(group[0].base_offset)
    found = list(segments)[first : min(first + len(group), len(segments) - 1)]
    unchanged = [(segment.base_offset, segment.size) for segment in found] == [source[:2] for source in group]
    return found if unchanged else None


def swap(disk: Disk, log: Log, sources: Sequence[Segment], cleaned: CleanedSegment) -> None:
    """OSError leaves the log as it was, or, if not even that is possible, offline until a start finishes the swap."""
    new = Segment(disk, log.directory, cleaned.base_offset, sources[-1].modified_ms, cleaned.sizes)
    renames = _Renames(disk)
    deleted = []
    try:
        for suffix in layout.SEGMENT_SUFFIXES:
            renames.rename(new.path(suffix) + layout.CLEANED, new.path(suffix) + layout.SWAP)
        for path in [segment.path(suffix) for segment in sources for suffix in layout.SEGMENT_SUFFIXES]:
            if disk.exists(path):
                renames.rename(path, path + layout.DELETED)
                deleted.append(path + layout.DELETED)
        # The log file comes last: until then a start knows that there is something to finish.
        for suffix in reversed(layout.SEGMENT_SUFFIXES):
            renames.rename(new.path(suffix) + layout.SWAP, new.path(suffix))
    except OSError:
        _undo(log, renames)
        raise
    log.segments.replace(sources, new)
    for segment in sources:
        segment.close()
    log.segments.remove_files_later(deleted, log.now_ms() + log.config.file_delete_delay_ms)
    log.unsynced.forget_between(sources[0].base_offset, sources[-1].base_offset)
    log.unsynced.note_directory()


def _undo(log: Log, renames: _Renames) -> None:
    try:
        renames.undo()
    except OSError as error:
        log.fail(error)


class _Renames:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._done: list[tuple[str, str]] = []

    def rename(self, source: str, target: str) -> None:
        self._disk.rename(source, target)
        self._done.append((source, target))

    def undo(self) -> None:
        for source, target in reversed(self._done):
            self._disk.rename(target, source)
