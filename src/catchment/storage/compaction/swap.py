"""Swap a cleaned segment in for those it was made from, so that a crash leaves either the old ones or the new one.

The names change in Kafka's order: `.cleaned` to `.swap`, the old files to `.deleted`, `.swap` to nothing. While some file
is still `.cleaned`, a start drops the new segment; once all are `.swap`, a start finishes the swap.
"""

from __future__ import annotations

from collections.abc import Sequence

from catchment.ports.disk import DirectoryEntry, Disk, TornWrite
from catchment.storage import layout
from catchment.storage.layout import LogFileName
from catchment.storage.segments.batch_scan import scan_headers
from catchment.storage.segments.segment import LogSegment


def swap_files(disk: Disk, old: Sequence[LogSegment], new: LogSegment) -> list[str]:
    """Give the cleaned files of `new` the names of those in use, and return the `.deleted` paths of the old ones.

    OSError undoes every rename; TornWrite if that fails, and the next start has to finish the swap.
    """
    renames = _Renames(disk)
    deleted = []
    try:
        for suffix in layout.SEGMENT_SUFFIXES:
            renames.rename(new.path(suffix) + layout.CLEANED, new.path(suffix) + layout.SWAP)
        for path in [segment.path(suffix) for segment in old for suffix in layout.SEGMENT_SUFFIXES]:
            if disk.exists(path):
                renames.rename(path, path + layout.DELETED)
                deleted.append(path + layout.DELETED)
        # The log file comes last: until then a start can see that there is a swap to finish.
        for suffix in reversed(layout.SEGMENT_SUFFIXES):
            renames.rename(new.path(suffix) + layout.SWAP, new.path(suffix))
    except OSError as error:
        try:
            renames.undo()
        except OSError as failure:
            raise TornWrite(f"the swap of {new.path(layout.LOG)} cannot be undone: {failure}") from error
        raise
    return deleted


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


def clear_leftovers(disk: Disk, directory: str, listing: list[DirectoryEntry]) -> list[DirectoryEntry]:
    """Finish what a crash interrupted, and return the new listing of the directory.

    `.deleted` and `.cleaned` files are removed. A `.swap` segment replaces the segments that it was cleaned from, unless some
    file of its set is still `.cleaned`: then the old segments are all there, and the swap files are removed as well.
    """
    found: dict[str, LogFileName] = {}
    for entry in listing:
        name = layout.parse_file_name(entry.name)
        if name is not None and name.state:
            found[entry.name] = name
    if not found:
        return listing
    cleaned_from = min((name.offset for name in found.values() if name.state == layout.CLEANED), default=None)
    for file_name, name in found.items():
        is_incomplete_swap = name.state == layout.SWAP and cleaned_from is not None and name.offset >= cleaned_from
        if name.state != layout.SWAP or is_incomplete_swap:
            disk.remove_file(f"{directory}/{file_name}")
    swaps = {
        file_name: name
        for file_name, name in found.items()
        if name.state == layout.SWAP and (cleaned_from is None or name.offset < cleaned_from)
    }
    _finish_swaps(disk, directory, listing, swaps)
    disk.sync_directory(directory)
    return disk.list_directory(directory)


def _finish_swaps(disk: Disk, directory: str, listing: list[DirectoryEntry], swaps: dict[str, LogFileName]) -> None:
    for file_name, swap in swaps.items():
        if swap.suffix != layout.LOG:
            continue
        end_offset = _end_offset(disk, f"{directory}/{file_name}", swap.offset)
        for entry in listing:
            old = layout.parse_file_name(entry.name)
            if old is None or old.state or old.suffix not in layout.SEGMENT_SUFFIXES:
                continue
            if swap.offset < old.offset < end_offset:
                disk.remove_file(f"{directory}/{entry.name}")
    # An index that is not among the swap files has its final name already, so none is removed. The log file is renamed
    # last: until then the swap can be finished again.
    for file_name in sorted(swaps, key=lambda name: swaps[name].suffix == layout.LOG):
        path = f"{directory}/{file_name}"
        disk.rename(path, path.removesuffix(layout.SWAP))


def _end_offset(disk: Disk, path: str, base_offset: int) -> int:
    """One past the last offset in a file of batches."""
    file = disk.open_file(path)
    end_offset = base_offset
    for _, header in scan_headers(file, 0, file.size):
        end_offset = header.next_offset
    file.close()
    return end_offset
