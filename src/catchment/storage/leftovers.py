"""Finish what a crash interrupted: files on their way in or out of a log.

`.deleted` and `.cleaned` files are dropped. A `.swap` segment replaces the segments that it was cleaned from, unless some of
the set it belongs to was still `.cleaned`: then the old segments are all still there, and the swap files go as well.
"""

from __future__ import annotations

from catchment.ports.disk import DirectoryEntry, Disk
from catchment.storage import layout
from catchment.storage.batch_scan import scan_headers
from catchment.storage.layout import LogFileName

Found = dict[str, tuple[LogFileName, int]]


def clear_leftovers(disk: Disk, directory: str, listing: list[DirectoryEntry]) -> list[DirectoryEntry]:
    """The listing of the directory once nothing in it is half done; the same listing if that was so."""
    found: Found = {}
    for entry in listing:
        name = layout.parse_file_name(entry.name)
        if name is not None and name.state:
            found[entry.name] = name, entry.size
    if not found:
        return listing
    cleaned_from = min((name.offset for name, _ in found.values() if name.state == layout.CLEANED), default=None)
    for file_name, (name, _) in found.items():
        is_incomplete_swap = name.state == layout.SWAP and cleaned_from is not None and name.offset >= cleaned_from
        if name.state != layout.SWAP or is_incomplete_swap:
            disk.remove_file(f"{directory}/{file_name}")
    swaps = {
        file_name: name
        for file_name, (name, _) in found.items()
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
