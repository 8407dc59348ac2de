"""Tasks for the tests of workers, in a module that another process can import."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

from catchment.ports.disk import Disk


def append_numbers(disk: Disk, argument: tuple[str, int]) -> Generator[None, None, int]:
    """Write `count` numbers to a file, one in each step. Returns the id of the process."""
    path, count = argument
    file = disk.open_file(path)
    for number in range(count):
        file.append([b"%d " % number])
        yield
    file.close()
    return os.getpid()


def fail(disk: Disk, path: str) -> Generator[None, None, None]:
    yield
    raise FileNotFoundError(2, "no such thing", path)


def die(disk: Disk, argument: None) -> Generator[None, None, None]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield


def run_forever(disk: Disk, path: str) -> Generator[None, None, None]:
    disk.open_file(path).close()
    while True:
        yield
