"""Every kind of store, each test with an empty one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pipelines.stores.servers import PostgresServer, RedisServer


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresServer]:
    # Processes are killed here, not the machine: what the system has been given to write is written.
    with PostgresServer("-c", "fsync=off") as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def sqlite_address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stores/city.db"


@pytest.fixture
def postgresql_address(postgresql_server: PostgresServer) -> str:
    return postgresql_server.new_database()


@pytest.fixture
def redis_address(redis_server: RedisServer) -> str:
    return redis_server.new_database()


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def address(request: pytest.FixtureRequest) -> str:
    """An empty store of each kind."""
    found: str = request.getfixturevalue(f"{request.param}_address")
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_address(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind."""
    found: str = request.getfixturevalue(f"{request.param}_address")
    return found


class SmallDisk:
    """A file system of two megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
