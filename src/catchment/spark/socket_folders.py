"""Folders of Unix sockets that only their owner can enter, locked for as long as their process lives.

A process that is killed leaves its folder behind; by the lock, which goes with the process, the next one sees that it may be removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

SOCKET: Final = "notices"
_PREFIX: Final = "catchment-notices-"
_SHORT: Final = "/tmp"
# Linux takes 107 bytes of path for a Unix socket, macOS 103.
_LONGEST_PATH: Final = 103


class SocketFolder:
    """A folder that is there from the moment when it is made until it is removed."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if len(self.address.encode()) > _LONGEST_PATH:
            self.path.rmdir()
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_SHORT))
        # Before there is a socket in it: folders without one are left alone.
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_left_behind(self.path.parent)

    @property
    def address(self) -> str:
        return str(self.path / SOCKET)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_left_behind(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        # Another process may remove it at the same time, and those of other users cannot be opened.
        with suppress(OSError):
            if not (folder / SOCKET).is_socket():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
