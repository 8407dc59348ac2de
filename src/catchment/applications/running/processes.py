"""Child processes that end with this process, even if it is killed, and that can be killed for a demonstration."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from catchment.client.errors import ClientError
from catchment.ports.network import free_port
from catchment.ports.process_tree import process_tree

_libc: Final = ctypes.CDLL(None)
_PR_SET_PDEATHSIG: Final = 1
USUAL_PORT: Final = 9092
_START_S: Final = 60.0
_STOP_S: Final = 30.0
_PAUSE_S: Final = 0.02
_TAIL_CHARACTERS: Final = 2000


class Child:
    """A program of ours in a process of its own, with its output in a file."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self._arguments = arguments
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before it does."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        self.launch()

    def launch(self) -> None:
        """Start it without waiting. Call it from the main thread: Linux ends a child with the thread that started it."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C must not reach the children: this process stops them in order.
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def kill(self) -> None:
        """As `kill -9` does it."""
        if self._process is not None and self.is_alive:
            self._process.kill()
            self._process.wait()

    def stop(self, timeout_s: float = _STOP_S) -> int | None:
        """Terminate it, and kill it after the timeout; the exit code."""
        if self._process is None:
            return None
        if self.is_alive:
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                for pid in reversed(process_tree(self._process.pid)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self._process.wait()
        return self._process.returncode

    def descendants(self, program: str) -> list[int]:
        """The processes below this one that run a program."""
        return [] if self.pid is None else [one for one in process_tree(self.pid) if _program(one) == program]

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-_TAIL_CHARACTERS:] if self._log.exists() else ""

    def failure(self) -> ClientError:
        """The error for a child that should be running and is not."""
        return ClientError(f"the {self.name} ended with code {self.exit_code}:\n{self.log_tail()}", f"See {self._log}.")


class BrokerChild(Child):
    """A broker with a fixed directory and port, so that it can be killed and restarted."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or usual_port()
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(folder / "broker"),
        }
        options = [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]
        super().__init__("broker", ["catchment.cli", "broker", *options], folder / "broker.log")

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        self.launch()
        deadline_s = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if not self.is_alive or time.monotonic() > deadline_s:
                    raise self.failure() from None
                time.sleep(_PAUSE_S)


def usual_port() -> int:
    """Kafka's usual port if it is free, so that commands need no option; else another."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", USUAL_PORT))
        except OSError:
            return free_port()
    return USUAL_PORT


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
