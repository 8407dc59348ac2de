"""Real servers for the tests of stores, from the system's packages, on ports of their own; tests skip where one is missing."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import pytest
import redis
from tests.examples.postgres_server import PostgresServer

from catchment.ports.network import free_port

__all__ = ["PostgresServer", "RedisServer"]

_START_SECONDS = 60.0
_DATABASES = 1_000
_numbers = itertools.count(1)


class RedisServer:
    """A Redis that has every change on the disk before it answers."""

    def __init__(self, *options: str) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("Redis is not installed (Debian: redis-server)")
        self._directory = Path(tempfile.mkdtemp(prefix="catchment-redis-"))
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        places = ["--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(self._directory)]
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--databases", str(_DATABASES)]
        self._command = [program, *places, *durable, *options]

    def __enter__(self) -> RedisServer:
        try:
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def start(self) -> None:
        """Run on the data that is there, and wait until it serves."""
        log = self._directory / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        deadline_s = time.monotonic() + _START_SECONDS
        with redis.Redis(port=self._port) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    assert self._process.poll() is None, log.read_text()[-2000:]
                    assert time.monotonic() < deadline_s, log.read_text()[-2000:]
                    time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, by SIGKILL if need be."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def new_database(self) -> str:
        """The address of a database with nothing in it."""
        return f"redis://127.0.0.1:{self._port}/{next(_numbers) % _DATABASES}"
