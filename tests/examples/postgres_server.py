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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import psycopg
import pytest

from catchment.ports.network import free_port
from catchment.ports.process_tree import process_tree

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
    """A server with an administrator who needs no password, and with further options of the program `postgres`."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._binaries = _binaries()
        self._directory = Path(tempfile.mkdtemp(prefix="catchment-postgres-"))
        self._data = self._directory / "data"
        self._log = self._directory / "log"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            # The server refuses to run as root.
            account = pwd.getpwnam(_USER)
            os.chown(self._directory, account.pw_uid, account.pw_gid)

    def __enter__(self) -> PostgresServer:
        with self._log.open("wb") as output:
            subprocess.run(
                self._as_user(
                    [
                        "initdb",
                        "-D",
                        str(self._data),
                        "-U",
                        _USER,
                        "--auth=trust",
                        "--encoding=UTF8",
                        "--no-instructions",
                    ]
                ),
                stdout=output,
                stderr=output,
                check=True,
            )
        self.start()
        return self

    def start(self) -> None:
        """Run on the data that is there, and wait until it serves."""
        options = [
            "-c",
            "listen_addresses=127.0.0.1",
            "-p",
            str(self._port),
            "-k",
            str(self._directory),
            *self._options,
        ]
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._as_user(["postgres", "-D", str(self._data), *options]), stdout=output, stderr=output
            )
        deadline_s = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self._address(_USER)).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, self._log.read_text()[-2000:]
                assert time.monotonic() < deadline_s, self._log.read_text()[-2000:]
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT closes connections and files, SIGQUIT is as good as a crash, of all its processes."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill -9 all of its processes."""
        assert self._process is not None, "only a server that runs is killed"
        for process_id in process_tree(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        self._process.wait()
        self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections stay open without an answer until the block ends."""
        assert self._process is not None, "only a server that runs is frozen"
        stopped = process_tree(self._process.pid)
        try:
            for process_id in stopped:
                os.kill(process_id, signal.SIGSTOP)
            yield
        finally:
            for process_id in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGCONT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
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
