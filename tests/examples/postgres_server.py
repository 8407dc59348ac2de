"""A PostgreSQL server of the tests' own: the binaries come from the system, the data goes away with it."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import psycopg
import pytest

from catchment.bench.peers.server import free_port

_START_SECONDS = 60.0
_USER = "postgres"
_numbers = itertools.count(1)


def _binaries() -> Path:
    """Where the server's programs are; Debian keeps them out of the way, one directory a version."""
    found = shutil.which("initdb")
    candidates = [Path(found).parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for candidate in candidates:
        if (candidate / "initdb").exists():
            return candidate
    pytest.skip("PostgreSQL's server is not installed (Debian: postgresql)")


class PostgresServer:
    def __init__(self) -> None:
        self._binaries = _binaries()
        self._directory = Path(tempfile.mkdtemp(prefix="catchment-postgres-"))
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            # The server refuses to run as root.
            account = pwd.getpwnam(_USER)
            os.chown(self._directory, account.pw_uid, account.pw_gid)

    def __enter__(self) -> PostgresServer:
        data = self._directory / "data"
        log = self._directory / "log"
        with log.open("wb") as output:
            subprocess.run(
                self._as_user(
                    ["initdb", "-D", str(data), "-U", _USER, "--auth=trust", "--encoding=UTF8", "--no-instructions"]
                ),
                stdout=output,
                stderr=output,
                check=True,
            )
            options = ["-c", "listen_addresses=127.0.0.1", "-p", str(self._port), "-k", str(self._directory)]
            self._process = subprocess.Popen(
                self._as_user(["postgres", "-D", str(data), *options]), stdout=output, stderr=output
            )
        deadline_s = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self._address(_USER)).close()
                return self
            except psycopg.OperationalError:
                assert self._process.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < deadline_s, log.read_text()[-2000:]
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def new_database(self) -> str:
        """The address of a database with nothing in it."""
        name = f"test{next(_numbers)}"
        with psycopg.connect(self._address(_USER), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._address(name)

    def _address(self, database: str) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self._port}/{database}"

    def _as_user(self, command: Sequence[str]) -> list[str]:
        path, *arguments = command
        full = [str(self._binaries / path), *arguments]
        return (
            ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", *full] if os.geteuid() == 0 else full
        )
