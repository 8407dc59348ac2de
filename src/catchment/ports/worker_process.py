"""The program that `ProcessWorker` starts: it reads tasks from standard input and writes results to standard output.

It has a lower priority than its broker and does not outlive it: between two steps of a task it checks that its parent is still
running, so that no orphan writes into directories that the next broker has opened.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Generator

from catchment.ports.disk import Disk
from catchment.ports.real_disk import RealDisk
from catchment.ports.workers import read_message, write_message

_NICENESS = 10


def main() -> None:
    os.nice(_NICENESS)
    parent = os.getppid()
    disk = RealDisk()
    while (message := read_message(sys.stdin.buffer)) is not None:
        task, argument = pickle.loads(message)
        write_message(sys.stdout.buffer, _result(task, argument, disk, parent))


def _result(
    task: Callable[[Disk, object], Generator[None, None, object]], argument: object, disk: Disk, parent: int
) -> bytes:
    try:
        return pickle.dumps((True, _run(task(disk, argument), parent)))
    except Exception as error:
        # The broker decides what the error means.
        return pickle.dumps((False, error))


def _run(steps: Generator[None, None, object], parent: int) -> object:
    while True:
        if os.getppid() != parent:
            raise SystemExit("the broker has ended")
        try:
            next(steps)
        except StopIteration as end:
            return end.value


if __name__ == "__main__":
    main()
