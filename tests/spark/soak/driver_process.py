"""A Spark driver with all that it starts, as something to kill: the whole, its JVM alone, or one of its Python processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.spark.soak.plan import Plan

_PROGRAM: Final = Path(__file__).with_name("driver_job.py")
_ROOT: Final = Path(__file__).parents[3]
_SECONDS: Final = 30.0
_LOOK_S: Final = 0.01
COMMITTER: Final = "python_streaming_sink_runner"
ROLES: Final = (
    "pyspark.worker",
    "python_streaming_source_runner",
    "plan_data_source_read",
    "write_into_data_source",
    COMMITTER,
)
"""Spark's Python processes that have work in every batch, as their command lines name them."""


class Member(NamedTuple):
    """A living process."""

    process_id: int
    parent_id: int
    session_id: int
    command: str

    @property
    def is_python_of_spark(self) -> bool:
        """Daemons, workers and what plans, reads and commits beside the driver; the JVM runs no module."""
        return " -m pyspark." in self.command or " -m catchment.spark." in self.command

    def kill(self) -> None:
        try:
            os.kill(self.process_id, signal.SIGKILL)
        except ProcessLookupError:
            # It ended between the look and the kill.
            return


class DriverProcess:
    """The program, started again whenever it has ended.

    Spark's daemons leave the process group but not the session, so that is what tells who belongs to a driver, also when its
    parents are dead.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._log_path = Path(plan.directory) / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: list[int] = []

    def ensure(self) -> None:
        if self._process is None or self._process.poll() is not None:
            with self._log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, str(_PROGRAM), self.plan.text()],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": str(_ROOT)},
                )
            self._sessions.append(self._process.pid)

    def kill(self) -> None:
        """Everything that any life of the driver has left, and what that starts while it dies."""
        deadline_s = time.monotonic() + _SECONDS
        while left := self.members(all_sessions=True):
            assert time.monotonic() < deadline_s, f"processes outlive the driver: {left}"
            for member in left:
                member.kill()
            time.sleep(_LOOK_S)
        # The number of a session that is gone may come to be another's.
        self._sessions.clear()
        self._wait()

    def kill_jvm(self) -> None:
        """The JVM and the program, but none of Spark's Python processes: those find out by themselves, in their own time."""
        for member in self.members():
            if not member.is_python_of_spark:
                member.kill()
        self._wait()

    def kill_python(self, random: Random) -> str | None:
        """One of Spark's Python processes that is at work; None if there is none just now."""
        return kill_worker(self.members(), random)

    def kill_committers(self) -> str | None:
        """The processes that commit batches, of which one has a commit under way if any has; None if there are none."""
        victims = _workers(self.members(), COMMITTER)
        for victim in victims:
            victim.kill()
        return victims[0].command if victims else None

    def members(self, *, all_sessions: bool = False) -> list[Member]:
        sessions = self._sessions if all_sessions else self._sessions[-1:]
        return [member for member in living_processes() if member.session_id in sessions]

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-6000:] if self._log_path.exists() else ""

    def _wait(self) -> None:
        if self._process is not None:
            self._process.wait(_SECONDS)
            self._process = None


def living_processes() -> Iterator[Member]:
    """All of the machine."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if fields[0] != "Z":
            yield Member(int(directory.name), int(fields[1]), int(fields[3]), command)


def kill_worker(members: Sequence[Member], random: Random) -> str | None:
    """Kill one of Spark's Python processes that is at work, of one session; None if there is none just now."""
    found = [workers for role in ROLES if (workers := _workers(members, role))]
    if not found:
        return None
    victim = random.choice(random.choice(found))
    victim.kill()
    return victim.command


def _workers(members: Sequence[Member], role: str) -> list[Member]:
    """Without the daemons that only start others: their death goes unnoticed until the next start."""
    found = [member for member in members if member.is_python_of_spark and role in member.command]
    parents = {member.parent_id for member in found}
    return [member for member in found if member.process_id not in parents]
