"""The run file and the lock of a pipeline: one says how its run is doing, the other that a process runs it.

The supervisor and its driver hold the lock together. While one of them lives, no other process may write to the same checkpoints. The file
outlives both, and then says how the run ended.

A link in the user's own folder for each running pipeline lets `status` find it, wherever its home is. Only the holder of a pipeline's lock
creates or removes its link. The link of a killed run is removed by the first process that finds the lock free.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from catchment.pipelines.home import Home, user_state

_LOCK: Final = "run.lock"
_CHECK_S: Final = 0.5
"""A process that checks the lock holds it for a moment: a run that takes it retries for this long."""
_CHECK_STEP_S: Final = 0.02


class AlreadyRunning(Exception):
    """Another run of the pipeline is active."""

    def __init__(self, home: Home) -> None:
        run = read_run(home) or {}
        since = f" since {run['started_at']}" if "started_at" in run else ""
        super().__init__(f"process {run.get('pid', 'unknown')} runs pipeline {home.pipeline}{since} in {home.root}")


class RunLock:
    """Held from the moment it is made until it is closed, and by every process that inherits its descriptor."""

    def __init__(self, home: Home) -> None:
        home.folder.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(home.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + _CHECK_S
        while not _try(self.descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(self.descriptor)
                raise AlreadyRunning(home)
            time.sleep(_CHECK_STEP_S)
        self._home = home
        note_running(home)

    def close(self) -> None:
        forget_running(self._home)
        os.close(self.descriptor)


def is_running(home: Home) -> bool:
    """Whether some process holds the lock."""
    with _checked(home) as is_held:
        return is_held


def running_homes() -> list[Home]:
    """Every running pipeline of this user, wherever its checkpoints are."""
    found = []
    for home in noted_homes():
        with _checked(home) as is_held:
            if is_held:
                found.append(home)
            else:
                # No run can start and create its link while we hold the lock.
                forget_running(home)
    return found


@contextmanager
def _checked(home: Home) -> Iterator[bool]:
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
    """Replace the file atomically: a reader sees the old or the new one."""
    temporary = home.run_file.with_suffix(".writing")
    temporary.write_text(json.dumps(run, ensure_ascii=False), encoding="utf-8")
    temporary.replace(home.run_file)


def read_run(home: Home) -> dict[str, Any] | None:
    """The content of the run file; None if the pipeline never ran, or if the file is damaged."""
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


_FOLDER: Final = "running"


def note_running(home: Home) -> None:
    """Create the link. If the folder cannot be written, `status` in another folder does not see the run; nothing else is lost."""
    link = _link(home)
    with suppress(OSError):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(home.folder.absolute())


def forget_running(home: Home) -> None:
    with suppress(OSError):
        _link(home).unlink(missing_ok=True)


def noted_homes() -> Iterator[Home]:
    """The homes of pipelines that run, or whose run was killed."""
    links = user_state() / _FOLDER
    for link in sorted(links.iterdir()) if links.is_dir() else ():
        with suppress(OSError):
            folder = Path(os.readlink(link))
            yield Home(folder.parent, folder.name)


def _link(home: Home) -> Path:
    """Two pipelines of one name in different homes have a link each."""
    name = hashlib.sha256(os.fsencode(home.folder.absolute())).hexdigest()[:32]
    return user_state() / _FOLDER / name


_ENDED: Final = ("stopped", "failed")
_UNDER_WAY: Final = ("starting", "running", "waiting")


def report(home: Home) -> dict[str, Any]:
    """The run file's content; a run that ended without recording it was killed."""
    run = read_run(home)
    if run is None:
        if not home.run_file.exists():
            return {"pipeline": home.pipeline, "state": "never run"}
        damaged = (
            f"{home.run_file} cannot be read. The next run replaces it; checkpoints and stores do not depend on it."
        )
        return {"pipeline": home.pipeline, "state": "unknown", "error": damaged}
    if run["state"] not in _ENDED and not is_running(home):
        return with_queries_ended(run | {"state": "killed"})
    return run


def with_queries_ended(run: dict[str, Any]) -> dict[str, Any]:
    """A run that has ended, with every query shown as stopped: a killed driver could not record that."""
    stopped = {"state": "stopped", "waits_for": None, "overdue": None, "rows_per_s": 0.0}
    queries = [
        one | (stopped if one.get("state") in _UNDER_WAY else {"rows_per_s": 0.0}) for one in run.get("queries", ())
    ]
    return run | {"queries": queries} if queries else run


def now_text() -> str:
    """The current time in ISO 8601 with a Z, as Spark writes it, to the millisecond."""
    return as_text(datetime.now(UTC))


def as_text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_text(text: str) -> datetime:
    return datetime.fromisoformat(text)
