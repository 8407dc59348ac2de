"""A program in a process of its own, which tests may watch, freeze and kill: in Java or in Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from tests.compat.java_archive import archive_options
from tests.waiting import wait_until

from catchment.bench.peers.java import applications_classpath, java_command, kafka_classpath
from catchment.bench.peers.maven import PeerUnavailable

APPLICATIONS = Path(__file__).parent / "apps"
TIMEOUT_S = 180.0
_ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 30.0
# Two such programs and a broker share two cores for seconds: a full just-in-time compilation would only delay their start.
VIRTUAL_MACHINE = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def until(condition: Callable[[], bool], otherwise: Callable[[], str], pause_s: float = 0.1) -> None:
    """Return once the condition holds; fail with the text of `otherwise` if it never does."""
    wait_until(condition, otherwise, TIMEOUT_S, pause_s)


class Program:
    """Its standard output is in `output`, its standard error in a log; both are kept over a restart of the program."""

    def __init__(self, command: Sequence[str], directory: Path, *, has_children: bool = False) -> None:
        """A program that `has_children` is signalled together with them."""
        self._command = command
        self._has_children = has_children
        self._output_path = directory / "output.txt"
        self._log_path = directory / "log.txt"
        directory.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def output(self) -> str:
        return self._output_path.read_text(errors="replace")

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self._output_path.open("ab") as output, self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                cwd=_ROOT,
                start_new_session=self._has_children,
            )

    def lines(self) -> list[str]:
        """Those that are whole."""
        return [line[:-1] for line in self.output.splitlines(keepends=True) if line.endswith("\n")]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that needs the program alive."""
        until(lambda: not self.is_alive or condition(), self.tail)
        assert self.is_alive or condition(), self.tail()

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(TIMEOUT_S)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        return self._end(signal.SIGTERM)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def tail(self) -> str:
        """The last that it printed and logged."""
        return f"{self.output[-3000:]}\n{self._log_path.read_text(errors='replace')[-3000:]}"

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._has_children:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> int:
        self._signal(number)
        assert self._process is not None
        process, self._process = self._process, None
        return process.wait(_STOP_SECONDS)


class PythonProgram(Program):
    """A module of the applications beside these tests."""

    def __init__(self, module: str, arguments: Sequence[str], directory: Path) -> None:
        super().__init__([sys.executable, "-m", f"tests.compat.apps.{module}", *arguments], directory)


@cache
def _has_compiler(java: str) -> bool:
    """Whether this Java runs source files: a run-time environment alone does not."""
    return b"jdk.compiler@" in subprocess.run([java, "--list-modules"], capture_output=True, check=True).stdout


class JavaProgram(Program):
    """A main class, or a source file, that uses Kafka's tools and clients or, on request, Connect and Streams."""

    def __init__(
        self, main: str, arguments: Sequence[str], directory: Path, *, needs_applications: bool = False
    ) -> None:
        try:
            if main.endswith(".java") and not _has_compiler(java_command()):
                pytest.skip("this Java cannot run a source file: it needs a JDK")
            jars = [kafka_classpath()] + ([applications_classpath()] if needs_applications else [])
            options = [*VIRTUAL_MACHINE, *archive_options(), "-cp", ":".join(jars)]
            command = [java_command(), *options, main, *arguments]
        except PeerUnavailable as reason:
            pytest.skip(str(reason))
        super().__init__(command, directory)
