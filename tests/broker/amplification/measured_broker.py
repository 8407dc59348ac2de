"""A broker in a process of its own that measures itself: processor time, memory, and how long its event loop was held.

Run as a module it is that process. It reads commands from its standard input, one per line, and writes a line of JSON for each.
Time is the processor's: what other processes on the machine do does not count.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import NamedTuple

from catchment.ports.network import free_port

_TICK_S = 0.002
_STOP_S = 300.0
_LOOK_S = 0.004
_QUIET_LOOKS = 3
"""A process has finished what it was asked for if so many looks in a row find every thread asleep."""
_PATIENCE_S = 600.0
_ROOT = Path(__file__).parents[3]
"""Where `python -m` finds this module."""


class Cost(NamedTuple):
    """What a stretch of time has cost the broker."""

    cpu_s: float
    stall_s: float
    """The most that the process has used before the loop's timers had their turn again.

    That is the loop's own work, and that of threads which did not let go of the interpreter.
    """
    peak_bytes: int
    """How far memory rose above what it was in the beginning."""
    kept_bytes: int
    """How much more memory there is in the end."""


class Answered(NamedTuple):
    size: int
    """Bytes of the response; 0 if the broker closed the connection or sent none."""
    hung_up: bool


class MeasuredBroker:
    """The parent's side."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.port = free_port()
        self.log_path = directory / "broker.log"
        values = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(directory / "data"),
            **settings,
        }
        self._command = [sys.executable, "-m", __name__, json.dumps(values)]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> MeasuredBroker:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=_ROOT
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise AssertionError(f"the broker did not start:\n{self.log_tail()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(_STOP_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log_tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-3000:]

    def cost(self, action: Callable[[], object]) -> Cost:
        """What an action costs the broker until it is quiet again."""
        self._ask("begin")
        action()
        self.wait_until_quiet()
        found = self._ask("end")
        return Cost(found["cpu_s"], found["stall_s"], int(found["peak_bytes"]), int(found["kept_bytes"]))

    def wait_until_quiet(self) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        looks = 0
        while looks < _QUIET_LOOKS:
            if time.monotonic() > deadline_s:
                raise AssertionError("the broker does not come to rest")
            time.sleep(_LOOK_S)
            looks = looks + 1 if self._is_asleep() else 0

    def _is_asleep(self) -> bool:
        """Whether no thread runs, wants to run, or waits for the disk. The ticks of the watch are rarely seen."""
        assert self._process is not None
        tasks = Path(f"/proc/{self._process.pid}/task")
        try:
            return all(_state(task) == "S" for task in tasks.iterdir())
        except FileNotFoundError:
            return False

    def send(self, frame: bytes, silence_s: float) -> Answered:
        """Send a frame on a connection of its own and read the answer, if there is one before the silence is too long."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE_S) as connection:
            try:
                connection.sendall(frame)
                return Answered(self._receive(connection, silence_s), hung_up=False)
            except ConnectionError:
                return Answered(0, hung_up=True)

    def _receive(self, connection: socket.socket, silence_s: float) -> int:
        """Take in one answer and return its size."""
        expected = 4
        received = b""
        total = 0
        while total < expected:
            try:
                connection.settimeout(silence_s)
                data = connection.recv(1 << 20)
            except TimeoutError:
                if self._is_asleep():
                    return 0
                continue
            if not data:
                raise ConnectionResetError
            total += len(data)
            if len(received) < 4:
                received += data[:4]
                if len(received) >= 4:
                    expected = 4 + int.from_bytes(received[:4], "big")
        return total

    def _ask(self, command: str) -> dict[str, float]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise AssertionError(f"the broker is gone:\n{self.log_tail()}")
        answer: dict[str, float] = json.loads(line)
        return answer


class _Watch:
    """Notes how much processor time the process uses from one tick of the loop to the next."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last_s = time.process_time()
        self._loop = asyncio.get_running_loop()
        self._tick()

    def begin(self) -> None:
        self.longest_s = 0.0
        self._last_s = time.process_time()

    def _tick(self) -> None:
        now_s = time.process_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        self._loop.call_later(_TICK_S, self._tick)


class _Control(Thread):
    """Answers the parent's commands, on a thread of its own so that a held loop does not hold it."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__(daemon=True)
        self._watch = watch
        self._cpu_s = 0.0
        self._resident_bytes = 0
        self._libc = ctypes.CDLL(None)

    def run(self) -> None:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(self._answer(line.strip())) + "\n")
            sys.stdout.flush()

    def _answer(self, command: str) -> dict[str, float]:
        if command == "begin":
            self._resident_bytes = self._settle()
            # Linux: the largest resident size starts again from what it is now.
            Path("/proc/self/clear_refs").write_text("5")
            self._watch.begin()
            self._cpu_s = time.process_time()
            return {}
        cpu_s = time.process_time() - self._cpu_s
        stall_s = self._watch.longest_s
        peak_bytes = _resident_bytes("VmHWM") - self._resident_bytes
        return {
            "cpu_s": cpu_s,
            "stall_s": stall_s,
            "peak_bytes": peak_bytes,
            "kept_bytes": self._settle() - self._resident_bytes,
        }

    def _settle(self) -> int:
        """Give back what can be given back; how much memory is left then."""
        gc.collect()
        self._libc.malloc_trim(0)
        return _resident_bytes("VmRSS")


def _state(task: Path) -> str:
    """The state of a thread, as the kernel shows it: R runs or wants to, S sleeps, D waits for a device."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def _resident_bytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def _serve(values: Mapping[str, str]) -> None:
    from catchment.cli.broker.given_settings import load_settings
    from catchment.cli.broker.running import RunningBroker

    async with RunningBroker(load_settings(None, dict(values))) as broker:
        _Control(_Watch()).start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await broker.stopped()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(json.loads(sys.argv[1])))
