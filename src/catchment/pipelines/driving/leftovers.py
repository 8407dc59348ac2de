"""The processes of a run that outlived their driver, found and ended before another driver starts.

A driver that is killed leaves a JVM that notices only a moment later, and until then writes to the checkpoints. All processes
of a run inherit a variable of its environment that no other process has, and are told by it.

Gaps
    Where there is no /proc, the JVM is left to notice by itself that its driver is gone.
"""

from __future__ import annotations

import os
import signal
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
            # Processes come and go while we look, and those of others are not ours to read.
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0") and _is_alive(folder):
                    yield int(folder.name)


def end_processes(run_id: str) -> int:
    """Kill all that is left of a run, and return how many that were once none is left."""
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
