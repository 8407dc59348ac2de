"""`catchment example` as people run it: on a terminal, with Spark and the broker killed in the middle."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from catchment.applications.catalogue import TITLES
from catchment.ports.network import free_port
from catchment.ports.process_tree import process_tree

_COMMAND = [sys.executable, "-m", "catchment.cli", "example"]
_DEADLINE_S = 500.0


class Terminal:
    """A child on a pseudo terminal: what it draws, and keys to press."""

    def __init__(self, arguments: list[str]) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "COLUMNS": "120", "LINES": "40", "TERM": "xterm"}
        self.child = subprocess.Popen(
            [*_COMMAND, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self.drawn = ""
        self._deadline_s = time.monotonic() + _DEADLINE_S

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def wait_for(self, pattern: str) -> None:
        """Until something that matches is drawn anew; the end of the child before that is a failure."""
        seen = len(self.drawn)
        while not re.search(pattern, self.drawn[seen:]):
            assert time.monotonic() < self._deadline_s, self.drawn[-3000:]
            assert self._read(), self.drawn[-3000:]

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            assert time.monotonic() < self._deadline_s, self.drawn[-3000:]
        return self.child.wait(10)

    def close(self) -> None:
        for pid in reversed(process_tree(self.child.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.child.wait()
        os.close(self._master)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 1.0)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            return False
        self.drawn += data.decode(errors="replace")
        return bool(data)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    options = ["--seconds", "60", "--rate", "200", "--port", str(free_port()), "--keep", str(tmp_path)]
    found = Terminal(["emergency", *options])
    yield found
    found.close()


@pytest.mark.timeout(1500)
def test_the_main_job_balances_though_spark_and_the_broker_are_killed(terminal: Terminal, tmp_path: Path) -> None:
    terminal.wait_for("Spark is starting")
    terminal.wait_for(r"stored [1-9]")
    terminal.press("k")
    terminal.wait_for("starts again")
    terminal.press("b")
    code = terminal.end()
    assert code == 0, terminal.drawn[-3000:]
    assert "it adds up" in terminal.drawn
    last_board = terminal.drawn.rpartition("   lag ")[2]
    assert not re.search("no more events|not yet|kill Spark", last_board), "what is over is not on the screen any more"
    assert "✓ acted" in terminal.drawn
    assert "Spark started 2 times" in terminal.drawn
    assert not list(_processes_in(tmp_path))


def test_the_list_names_every_application() -> None:
    done = subprocess.run([*_COMMAND, "list"], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()[1:]] == list(TITLES)


def test_an_application_that_does_not_exist_is_told_with_those_that_do() -> None:
    done = subprocess.run([*_COMMAND, "emergenci"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no example emergenci" in done.stderr
    assert "emergency" in done.stderr


def test_every_application_has_its_files() -> None:
    folder = Path(__file__).parents[2] / "src" / "catchment" / "applications"
    found = {one.parent.name for one in folder.glob("*/pipeline.py")}
    assert found == set(TITLES)
    for name in TITLES:
        assert {one.name for one in (folder / name).glob("*.py")} >= {"pipeline.py", "generator.py", "actuator.py"}


def _processes_in(folder: Path) -> Iterator[int]:
    """Processes that were started with this folder among their arguments, and still live."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                if str(folder).encode() in (process / "cmdline").read_bytes():
                    yield int(process.name)
