"""Who runs a pipeline, and how it fares: a lock that says that somebody does, and a file that anybody may read.

The lock belongs to the supervisor and to its driver together: as long as one of them lives, nobody else may write to the same
checkpoints. The file outlives both, and then says how the run ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from catchment.pipelines.driving.running_homes import forget_running, note_running, noted_homes
from catchment.pipelines.home import Home

_LOCK: Final = "run.lock"
_GLANCE_S: Final = 0.5
"""Who looks whether a lock is held holds it for a moment: whoever wants it for good tries again for this long."""
_GLANCE_STEP_S: Final = 0.02


class AlreadyRunning(Exception):
    """Another run has the pipeline."""

    def __init__(self, home: Home) -> None:
        run = read_run(home) or {}
        since = f" since {run['started_at']}" if "started_at" in run else ""
        super().__init__(f"process {run.get('pid', 'unknown')} runs pipeline {home.pipeline}{since} in {home.root}")


class RunLock:
    """Held from the moment it is made until it is closed, and by every process that inherits its descriptor."""

    def __init__(self, home: Home) -> None:
        home.folder.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(home.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + _GLANCE_S
        while not _try(self.descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(self.descriptor)
                raise AlreadyRunning(home)
            time.sleep(_GLANCE_STEP_S)
        self._home = home
        note_running(home)

    def close(self) -> None:
        forget_running(self._home)
        os.close(self.descriptor)


def is_running(home: Home) -> bool:
    """Whether some process holds the lock."""
    with _glance(home) as is_held:
        return is_held


def running_homes() -> list[Home]:
    """Every pipeline of this user that runs now, wherever it keeps its checkpoints."""
    found = []
    for home in noted_homes():
        with _glance(home) as is_held:
            if is_held:
                found.append(home)
            else:
                # Nobody can begin a run, and note it, while we look.
                forget_running(home)
    return found


@contextmanager
def _glance(home: Home) -> Iterator[bool]:
    """Whether some process holds the lock; if none does, none takes it meanwhile."""
    try:
        descriptor = os.open(home.folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield False
        return
    try:
        yield not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def write_run(home: Home, run: dict[str, Any]) -> None:
    """Replace the file in one step: a reader sees the old or the new."""
    temporary = home.run_file.with_suffix(".writing")
    temporary.write_text(json.dumps(run, ensure_ascii=False), encoding="utf-8")
    temporary.replace(home.run_file)


def read_run(home: Home) -> dict[str, Any] | None:
    """What was last written; None if the pipeline never ran, or if it cannot be understood."""
    try:
        run = json.loads(home.run_file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return run if isinstance(run, dict) and "state" in run else None


def runs(root: Path) -> Iterator[Home]:
    """Every pipeline that ever ran below a folder."""
    for file in sorted(root.glob("*/run.json")):
        yield Home(root, file.parent.name)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
