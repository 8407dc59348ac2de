"""`catchment example` as people run it: on a terminal, with Spark and the broker killed in the middle."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from catchment.applications.catalogue import TITLES
from catchment.ports.network import free_port
from catchment.ports.process_tree import process_tree

_COMMAND = [sys.executable, "-m", "catchment.cli", "example"]
_DEADLINE_S = 500.0
_ROOT = Path(__file__).parents[2]
_LEAVE_SCREEN = "\x1b[?1049l"


class Terminal:
    """A child on a pseudo terminal, which controls it: what it draws, and keys to press."""

    def __init__(self, command: list[str]) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "COLUMNS": "120", "LINES": "40", "TERM": "xterm"}
        self.child = subprocess.Popen(
            command,
            cwd=_ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            # Without a controlling terminal, Ctrl-C would be a character like others.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.drawn = ""
        self._deadline_s = time.monotonic() + _DEADLINE_S

    @property
    def summary(self) -> str:
        """What was printed after the board, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.drawn.rpartition(_LEAVE_SCREEN)[2])

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def wait_for(self, pattern: str) -> None:
        """Until something new that matches is drawn; the end of the child before that is a failure."""
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
    found = Terminal([*_COMMAND, "emergency", *options])
    yield found
    found.close()


@pytest.fixture
def open_terminal() -> Iterator[Callable[..., Terminal]]:
    with ExitStack() as stack:

        def opened(*command: str) -> Terminal:
            terminal = Terminal(list(command))
            stack.callback(terminal.close)
            return terminal

        yield opened


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
    after_board = terminal.summary
    assert not re.search("no more events|not yet|kill Spark", after_board), "what is over is not on the screen any more"
    assert re.search(r"alerts: [1-9]\d*, acted on: [1-9]", after_board)
    assert re.search(r"acted ✓ [1-9]", terminal.drawn)
    assert re.search(r"Docklands[^\n]*[▏▎▍▌▋▊▉█][^\n]* \d+", terminal.drawn), (
        "the board has the counts of the districts"
    )
    assert "Spark started 2 times" in terminal.drawn
    assert not list(_processes_in(tmp_path))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("key", ["q", "\x03"], ids=["q", "ctrl-c"])
def test_a_key_ends_it_with_a_summary_and_success(
    open_terminal: Callable[..., Terminal], tmp_path: Path, key: str
) -> None:
    keep = ["--keep", str(tmp_path)] if key == "q" else []
    terminal = open_terminal(*_COMMAND, "emergency", "--rate", "100", "--port", str(free_port()), *keep)
    terminal.wait_for(r"Spark is starting[^§]*in [1-9]")
    terminal.press(key)
    terminal.wait_for("stopping …")
    assert terminal.end() == 0, terminal.drawn[-3000:]
    after_board = terminal.summary
    assert re.search(r"emergency ran for \d+ s", after_board)
    assert re.search(r"in [\d,]+ = stored [^✓]* ✓", after_board)
    assert ("files: " in after_board) == bool(keep)
    if not keep:
        assert "catchment-emergency-" not in re.sub(
            r"\x1b\[\?1049h.*\x1b\[\?1049l", "", terminal.drawn, flags=re.DOTALL
        )
        assert "the files were temporary and are deleted" in after_board


@pytest.mark.parametrize(("code", "is_reported"), [(0, False), (130, False), (1, True)])
def test_make_run_reports_no_error_after_ctrl_c(
    open_terminal: Callable[..., Terminal], tmp_path: Path, code: int, is_reported: bool
) -> None:
    program = tmp_path / "catchment"
    program.write_text(
        f"#!{sys.executable}\nimport sys, time\n"
        f"try: print('runs', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: sys.exit({code})\n"
    )
    program.chmod(0o755)
    terminal = open_terminal("make", "-o", ".venv/.installed", "run", f"BIN={tmp_path}")
    terminal.wait_for("runs")
    terminal.press("\x03")
    terminal.end()
    # Below another make, as in `make test`, its name has a level: make[1].
    assert bool(re.search(r"make(\[\d+\])?: \*\*\*", terminal.drawn)) == is_reported, terminal.drawn


def test_the_list_names_every_application() -> None:
    done = subprocess.run([*_COMMAND, "list"], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()[1:]] == list(TITLES)


def test_an_unknown_application_is_reported_with_the_known_ones() -> None:
    done = subprocess.run([*_COMMAND, "emergenci"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no example emergenci" in done.stderr
    assert "emergency" in done.stderr


def test_every_application_has_its_files() -> None:
    folder = Path(__file__).parents[2] / "src" / "catchment" / "applications"
    found = {one.parent.name for one in folder.glob("*/pipeline.py")}
    assert found == set(TITLES)
    for name in TITLES:
        assert {one.name for one in (folder / name).glob("*.py")} >= {"pipeline.py", "simulation.py"}


def _processes_in(folder: Path) -> Iterator[int]:
    """Processes that were started with this folder among their arguments, and still live."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                if str(folder).encode() in (process / "cmdline").read_bytes():
                    yield int(process.name)
