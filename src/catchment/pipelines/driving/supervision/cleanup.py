"""What a run may leave behind: processes that outlived their driver, and temporary files.

A driver that is killed leaves a JVM that notices only a moment later, and until then writes to the checkpoints. All processes
of a run inherit an environment variable that no other process has, and are found by it.

Spark, its workers and the JVM make temporary folders, and remove them only if they end by themselves. A run has one folder for all of
them, removed when it ends, or by the next run if it was killed.

Gaps
    Where there is no /proc, the JVM is left to notice by itself that its driver is gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

RUN_VARIABLE: Final = "CATCHMENT_PIPELINE_RUN"
_WAIT_S: Final = 10.0
_STEP_S: Final = 0.02
_PROCESSES: Final = Path("/proc")
_DEAD: Final = ("Z", "X")


def processes_of(run_id: str) -> Iterator[int]:
    """Living processes that have the run's id in their environment, other than this one."""
    wanted = f"{RUN_VARIABLE}={run_id}".encode()
    for folder in _PROCESSES.iterdir() if _PROCESSES.is_dir() else ():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            # Processes come and go meanwhile, and those of other users cannot be read.
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0") and _is_alive(folder):
                    yield int(folder.name)


def end_processes(run_id: str) -> int:
    """Kill all processes of a run, and return how many there were once none is left."""
    ended: set[int] = set()
    deadline = time.monotonic() + _WAIT_S
    while living := list(processes_of(run_id)):
        for process in living:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        ended.update(living)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {living} of an earlier run cannot be ended")
        time.sleep(_STEP_S)
    return len(ended)


def _is_alive(folder: Path) -> bool:
    state = (folder / "stat").read_text().rpartition(") ")[2][:1]
    return state not in _DEAD


_PREFIX: Final = "catchment-run-"
_LOCAL_DIRECTORIES: Final = "SPARK_LOCAL_DIRS"
_SHORT: Final = "/tmp"
_LONGEST_PATH: Final = 55
"""Spark and its workers have Unix sockets in it, with names of up to 45 bytes: the limit for the path is little more than 100."""


class Scratch:
    """One folder, below the directory for temporary files; `environment` creates it."""

    def __init__(self) -> None:
        name = f"{_PREFIX}{os.urandom(6).hex()}"
        parent = tempfile.gettempdir()
        self.folder = Path(parent if len(os.fsencode(parent)) + len(name) < _LONGEST_PATH else _SHORT) / name

    def environment(self) -> dict[str, str]:
        """The variables by which a driver and its child processes use the folder. SPARK_LOCAL_DIRS of the user stays."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        folder = str(self.folder)
        return {"TMPDIR": folder, _LOCAL_DIRECTORIES: os.environ.get(_LOCAL_DIRECTORIES) or folder}

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_scratch(noted: object) -> None:
    """Remove the folder of an earlier run, as its run file names it."""
    if isinstance(noted, str) and (folder := Path(noted)).name.startswith(_PREFIX) and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
