"""The files of a log that the device may not hold yet, and how far the log is safe.

Besides the batches at the end, that is everything a roll leaves behind: the finished segment, its indexes and the snapshot.
The recovery point may pass a segment only once they are on the device too, since recovery rebuilds nothing below it.
"""

from __future__ import annotations

from typing import NamedTuple

from catchment.ports.disk import Disk, File


class _Waiting(NamedTuple):
    file: File
    base_offset: int
    serial: int


class Unsynced:
    __slots__ = (
        "_directory",
        "_disk",
        "_handed_out",
        "_is_directory_new",
        "_is_directory_unsynced",
        "_serial",
        "_waiting",
    )

    def __init__(self, disk: Disk, directory: str, *, is_new: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._is_directory_new = is_new
        self._is_directory_unsynced = is_new
        self._waiting: list[_Waiting] = []
        self._serial = 0
        self._handed_out = 0

    def add(self, file: File, base_offset: int) -> None:
        """A file of the segment at `base_offset` has changed."""
        self._serial += 1
        if all(waiting.file is not file or waiting.serial <= self._handed_out for waiting in self._waiting):
            self._waiting.append(_Waiting(file, base_offset, self._serial))

    def note_directory(self) -> None:
        """Files were created or renamed."""
        self._is_directory_unsynced = True

    def files(self) -> list[File]:
        """All files that wait. The names in the directory are made durable at once: that is needed once a segment."""
        if self._is_directory_unsynced:
            if self._is_directory_new:
                self._disk.sync_directory(self._directory.rpartition("/")[0] or "/")
                self._is_directory_new = False
            self._disk.sync_directory(self._directory)
            self._is_directory_unsynced = False
        self._handed_out = self._serial
        return list(dict.fromkeys(waiting.file for waiting in self._waiting))

    def mark_synced(self) -> None:
        """The files last handed out are on the device."""
        if self._waiting:
            self._waiting = [waiting for waiting in self._waiting if waiting.serial > self._handed_out]

    def forget_from(self, base_offset: int) -> None:
        """Segments from `base_offset` on are gone."""
        self._waiting = [waiting for waiting in self._waiting if waiting.base_offset < base_offset]

    def forget_below(self, base_offset: int) -> None:
        """Segments below `base_offset` are gone."""
        self._waiting = [waiting for waiting in self._waiting if waiting.base_offset >= base_offset]

    def forget_between(self, first_base_offset: int, last_base_offset: int) -> None:
        """The segments between these two, both included, were replaced by what is on the device already."""
        self._waiting = [
            waiting for waiting in self._waiting if not first_base_offset <= waiting.base_offset <= last_base_offset
        ]

    def recovery_point(self, synced_offset: int) -> int:
        """How far recovery may trust what it finds, when the batches below `synced_offset` are on the device."""
        return min([synced_offset, *(waiting.base_offset for waiting in self._waiting)])
