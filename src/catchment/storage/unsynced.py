"""The files of a log that the device may not hold yet, and the recovery point that follows from them.

Besides the batches at the end, these are the files that a roll leaves: the finished segment, its indexes, the producer snapshot
and the leader epochs. The recovery point may pass a segment only once they are on the device too, since recovery rebuilds
nothing below it.
"""

from __future__ import annotations

from typing import NamedTuple

from catchment.ports.disk import File, SyncGroup


class _Unsynced(NamedTuple):
    file: File
    base_offset: int
    serial: int


class UnsyncedFiles:
    __slots__ = (
        "_directory",
        "_directory_serial",
        "_epochs_base_offset",
        "_handed_out",
        "_is_directory_new",
        "_serial",
        "_waiting",
    )

    def __init__(self, directory: str, *, is_new: bool) -> None:
        self._directory = directory
        self._is_directory_new = is_new
        self._waiting: list[_Unsynced] = []
        self._serial = 0
        self._handed_out = 0
        self._directory_serial: int | None = 0 if is_new else None
        """When names in the directory last changed, None if the device has them all."""
        self._epochs_base_offset: int | None = None

    @property
    def awaits_epochs(self) -> bool:
        """Whether the leader epochs must be written before the recovery point may pass a finished segment."""
        return self._epochs_base_offset is not None

    def add(self, file: File, base_offset: int) -> None:
        """A file of the segment at `base_offset` has changed."""
        self._serial += 1
        if all(waiting.file is not file or waiting.serial <= self._handed_out for waiting in self._waiting):
            self._waiting.append(_Unsynced(file, base_offset, self._serial))

    def note_directory(self) -> None:
        """Files were created or renamed."""
        self._serial += 1
        self._directory_serial = self._serial

    def note_epochs(self, base_offset: int) -> None:
        """The segment at `base_offset` is finished, and the leader epochs in it are in memory alone."""
        if self._epochs_base_offset is None:
            self._epochs_base_offset = base_offset

    def group(self) -> SyncGroup:
        """Everything unsynced, for a sync that `mark_synced` ends."""
        self._handed_out = self._serial
        directories: tuple[str, ...] = ()
        if self._directory_serial is not None:
            directories = (self._directory,)
            if self._is_directory_new:
                directories = (self._directory.rpartition("/")[0] or "/", self._directory)
        return SyncGroup(list(dict.fromkeys([waiting.file for waiting in self._waiting])), directories)

    def mark_synced(self) -> None:
        """The last `group` is on the device."""
        if self._directory_serial is not None and self._directory_serial <= self._handed_out:
            self._directory_serial = None
            self._is_directory_new = False
        if self._waiting:
            self._waiting = [waiting for waiting in self._waiting if waiting.serial > self._handed_out]

    def mark_epochs_flushed(self) -> None:
        self._epochs_base_offset = None

    def forget_from(self, base_offset: int) -> None:
        """Segments from `base_offset` on are gone."""
        self._waiting = [waiting for waiting in self._waiting if waiting.base_offset < base_offset]

    def forget_below(self, base_offset: int) -> None:
        """Segments below `base_offset` are gone."""
        self._waiting = [waiting for waiting in self._waiting if waiting.base_offset >= base_offset]

    def forget_between(self, first_base_offset: int, last_base_offset: int) -> None:
        """The segments between these two, both included, were replaced by files that are on the device already."""
        self._waiting = [
            waiting for waiting in self._waiting if not first_base_offset <= waiting.base_offset <= last_base_offset
        ]

    def recovery_point(self, synced_offset: int) -> int:
        """Up to where recovery may trust the files, if the batches below `synced_offset` are on the device."""
        if self._epochs_base_offset is not None:
            synced_offset = min(synced_offset, self._epochs_base_offset)
        return min([synced_offset, *(waiting.base_offset for waiting in self._waiting)])
