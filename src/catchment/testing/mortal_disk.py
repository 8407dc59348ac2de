"""A real disk whose process may die without dying: what the kernel closes for a killed process is closed by hand."""

from __future__ import annotations

from catchment.ports.disk import DirectoryLock
from catchment.ports.real_disk import RealDisk


class MortalDisk(RealDisk):
    def __init__(self) -> None:
        super().__init__()
        self._locks: list[DirectoryLock] = []

    def lock_directory(self, path: str) -> DirectoryLock:
        lock = super().lock_directory(path)
        self._locks.append(lock)
        return lock

    def unlock_all(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks.clear()
