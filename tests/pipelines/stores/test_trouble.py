"""A store that is busy, full, read-only or broken says so, and in which way; what it could not do has not been begun."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pyarrow
import pytest
import redis
from tests.pipelines.stores.boards import SCHEMA, board, cells, counts, layout, rows, tombstones
from tests.pipelines.stores.conftest import SmallDisk
from tests.pipelines.stores.servers import PostgresServer, RedisServer

from catchment.pipelines.stores.sql.sqlite import SqliteStore
from catchment.pipelines.stores.store import Layout
from catchment.pipelines.stores.store_errors import StoreAway, StoreDenied, StoreRefused
from catchment.pipelines.stores.store_opening import open_store
from catchment.ports.network import free_port

HEAVY = pyarrow.schema([("number", pyarrow.int64()), ("load", pyarrow.binary())])
UNPRIVILEGED_USER = 65_534


def path_of(sqlite_address: str) -> Path:
    return Path(sqlite_address.removeprefix("sqlite:///"))


def heavy(megabytes: int) -> pyarrow.Table:
    loads = [b"x" * 2**20] * megabytes
    return pyarrow.table({"number": list(range(megabytes)), "load": loads}, schema=HEAVY)


def test_a_reader_of_sqlite_neither_waits_nor_makes_the_writer_wait(sqlite_address: str) -> None:
    with board(sqlite_address) as store:
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        with contextlib.closing(sqlite3.connect(path_of(sqlite_address), isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count FROM board").fetchall() == [(1,)]
            store.write(rows([("north", 1, 2)]), "query", 1, 1)
            store.prepare(SCHEMA, layout(2))
            assert reader.execute("SELECT count FROM board").fetchall() == [(1,)]
            reader.execute("COMMIT")
            assert reader.execute("SELECT count FROM board").fetchall() == [(2,)]


def test_another_writer_of_sqlite_is_waited_for_and_then_the_store_is_away(sqlite_address: str) -> None:
    board(sqlite_address).close()
    path = path_of(sqlite_address)
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
        SqliteStore(path, "board", None, lambda: datetime.now(UTC), busy_timeout_ms=50) as hasty,
        open_store(sqlite_address, "board") as patient,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreAway, match="database is locked"):
            hasty.write(rows([("north", 1, 1)]), "query", 0, 1)
        writer = threading.Thread(target=patient.write, args=(rows([("north", 1, 2)]), "query", 0, 1))
        writer.start()
        writer.join(timeout=0.1)
        assert writer.is_alive()
        other.execute("ROLLBACK")
        writer.join()
        assert not hasty.write(rows([("north", 1, 1)]), "query", 0, 1)
        assert cells(hasty.read()) == [("north", 1, 2)]


def test_threads_may_share_a_store(address: str) -> None:
    with board(address) as store:
        threads = [
            threading.Thread(target=store.write, args=(rows([("north", number, number)]), f"query {number}", 0, 1))
            for number in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts(store.read()) == list(range(12))


def test_a_full_disk_is_reported_and_the_store_works_again_when_there_is_room(small_disk: SmallDisk) -> None:
    with open_store(f"sqlite:///{small_disk.folder}/city.db", "heavy") as store:
        store.prepare(HEAVY, Layout("heavy", ("number",)))
        with pytest.raises(StoreAway, match=r"disk is full|disk I/O error") as trouble:
            store.write(heavy(4), "query", 0, 1)
        assert trouble.value.advice
        assert store.last_batch("query") is None
        assert store.write(heavy(0), "query", 0, 1)


def test_a_read_only_disk_is_reported(small_disk: SmallDisk) -> None:
    address = f"sqlite:///{small_disk.folder}/city.db"
    board(address).close()
    small_disk.make_read_only()
    with open_store(address, "board") as store, pytest.raises(StoreRefused, match="not read-only"):
        store.write(rows([("north", 1, 1)]), "query", 0, 1)


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(UNPRIVILEGED_USER)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_one_may_not_write_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with without_privileges():
        for path in ("closed/city.db", "closed/new/city.db"):
            with pytest.raises(StoreRefused, match=r"unable to open|Permission denied"):
                board(f"sqlite:///{tmp_path}/{path}")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    precious = b"a letter to my grandmother, of some length: " * 100
    (tmp_path / "letter.txt").write_bytes(precious)
    with pytest.raises(StoreRefused, match="no SQLite database"):
        board(f"sqlite:///{tmp_path}/letter.txt")
    assert (tmp_path / "letter.txt").read_bytes() == precious


@pytest.mark.parametrize("scheme", ["postgresql://postgres@", "redis://"])
def test_a_server_that_is_not_there_is_away_and_passwords_stay_secret(scheme: str) -> None:
    address = f"{scheme.replace('@', ':secret@')}127.0.0.1:{free_port()}/0"
    with pytest.raises(StoreAway, match="Check that the server is up") as trouble:
        board(address)
    assert "secret" not in str(trouble.value)


@pytest.fixture
def guarded_address(postgresql_server: PostgresServer) -> Iterator[str]:
    """A database that two connections at most may be made to, and that asks its user guard for a password: right."""
    address = postgresql_server.new_database()
    name = address.rpartition("/")[2]
    with psycopg.connect(address, autocommit=True) as administrator:
        administrator.execute("CREATE ROLE guard LOGIN PASSWORD 'right'")
        (file,) = administrator.execute("SHOW hba_file").fetchone() or ("",)
        rules = Path(file).read_text()
        Path(file).write_text(f"host {name} guard all scram-sha-256\n{rules}")
        administrator.execute("SELECT pg_reload_conf()")
        administrator.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 2; GRANT ALL ON SCHEMA public TO guard".encode())
    yield address.replace("postgres@", "guard:right@")
    Path(file).write_text(rules)
    with psycopg.connect(address, autocommit=True) as administrator:
        administrator.execute("DROP OWNED BY guard; DROP ROLE guard; SELECT pg_reload_conf()")


def test_a_user_a_password_or_a_database_that_postgresql_does_not_know_is_reported_as_such(
    guarded_address: str,
) -> None:
    board(guarded_address).close()
    wrong = [(":right", ":wrong"), (":right", ""), ("guard:right", "unknown"), ("/test", "/rest")]
    for right, other in wrong:
        with pytest.raises(StoreDenied, match="Check user, password and database") as trouble:
            board(guarded_address.replace(right, other))
        assert "wrong" not in str(trouble.value), "passwords stay secret"


def test_a_postgresql_that_has_no_connection_left_is_away(guarded_address: str) -> None:
    with (
        psycopg.connect(guarded_address),
        psycopg.connect(guarded_address),
        pytest.raises(StoreAway, match="no connections left"),
    ):
        board(guarded_address)
    board(guarded_address).close()


def test_a_postgresql_that_takes_no_changes_is_away(postgresql_address: str) -> None:
    board(postgresql_address).close()
    name = postgresql_address.rpartition("/")[2]
    with psycopg.connect(postgresql_address, autocommit=True) as administrator:
        administrator.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
    with board(postgresql_address) as store, pytest.raises(StoreAway, match="point the address to the primary"):
        store.write(rows([("north", 1, 1)]), "query", 0, 1)


def test_a_key_that_postgresql_cannot_index_is_refused(postgresql_address: str) -> None:
    schema = pyarrow.schema([("name", pyarrow.string())])
    # Random digits cannot be compressed below the limit.
    name = os.urandom(5_000).hex()
    with open_store(postgresql_address, "names") as store:
        store.prepare(schema, Layout("names", ("name",)))
        with pytest.raises(StoreRefused, match="index row"):
            store.write(pyarrow.table({"name": [name]}), "query", 0, 1)
        assert store.write(pyarrow.table({"name": ["short"]}), "query", 0, 1)


def test_a_view_that_others_build_upon_is_kept_and_named(postgresql_address: str) -> None:
    with board(postgresql_address) as store:
        store.prepare(SCHEMA.append(pyarrow.field("crew", pyarrow.int32())), layout(2))
        with psycopg.connect(postgresql_address, autocommit=True) as user:
            user.execute("CREATE VIEW crews AS SELECT crew FROM board")
        with pytest.raises(StoreRefused, match="crews"):
            store.drop_version(2)
        assert [version.version for version in store.versions()] == [1, 2]
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        assert counts(store.read()) == [1]


def test_a_redis_without_memory_is_away_and_has_no_part_of_the_batch() -> None:
    with RedisServer("--maxmemory", "16mb", "--maxmemory-policy", "noeviction") as server:
        address = server.new_database()
        with open_store(address, "heavy") as store:
            store.prepare(HEAVY, Layout("heavy", ("number",)))
            with pytest.raises(StoreAway, match="more memory"):
                store.write(heavy(40), "query", 0, 1)
            with redis.Redis.from_url(address) as client:
                names: object = client.keys("heavy:1:*")
                assert names == []
            assert store.write(heavy(1), "query", 0, 1)


def test_a_wrong_password_of_redis_is_reported_as_such() -> None:
    with RedisServer("--user", "writer", "on", ">right", "~*", "+@all") as server:
        address = server.new_database().replace("redis://", "redis://writer:wrong@")
        with pytest.raises(StoreDenied, match="user and password"):
            board(address)


def test_something_foreign_under_a_key_of_the_store_is_refused_before_anything_is_written(redis_address: str) -> None:
    with board(redis_address) as store, redis.Redis.from_url(redis_address) as client:
        client.set("board:1:speed", "mine")
        with pytest.raises(StoreRefused, match="board:1:speed is not this store's"):
            store.write(rows([("north", 1, 1)]), "query", 0, 1)
        assert store.last_batch("query") is None
        client.delete("board:1:speed")
        # A row, on the other hand, replaces whatever has its key.
        client.set("board:1:speed:north:2026-01-01 01%3A00%3A00.000000Z", "mine")
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        assert counts(store.read()) == [1]


def test_a_batch_of_which_redis_could_not_run_every_command_is_repeated(redis_address: str) -> None:
    batch = pyarrow.concat_tables(
        [rows([("north", 1, 1)]).append_column("__deleted", pyarrow.array([False])), tombstones([("south", 1)])]
    )
    with redis.Redis.from_url(redis_address) as client, board(redis_address) as store:
        store.write(rows([("south", 1, 7)]), "query", 0, 1)
        client.execute_command("ACL", "SETUSER", "narrow", "on", ">secret", "allkeys", "+@all", "-zadd")
        with open_store(redis_address.replace("redis://", "redis://narrow:secret@"), "board") as narrow:
            with pytest.raises(StoreRefused, match="run this command"):
                narrow.write(batch, "query", 1, 1)
            assert narrow.last_batch("query") == 0, "the part of the batch that failed would be missing for ever"
            client.execute_command("ACL", "SETUSER", "narrow", "+zadd")
            assert narrow.write(batch, "query", 1, 1)
            assert not narrow.write(batch, "query", 1, 1)
        assert cells(store.read()) == [("north", 1, 1)]
        assert client.keys("board:pieces:*") == []


def test_a_batch_of_more_than_one_command_is_whole(redis_address: str) -> None:
    with open_store(redis_address, "heavy") as store:
        store.prepare(HEAVY, Layout("heavy", ("number",)))
        store.write(heavy(30), "query", 0, 1)
        assert store.read().num_rows == 30
        many = pyarrow.table({"number": list(range(25_000)), "load": [b"\xff\x00"] * 25_000}, schema=HEAVY)
        store.write(many, "query", 1, 1)
        assert store.read().sort_by("number").equals(many)
        store.write(many.append_column("__deleted", pyarrow.array([True] * 25_000)), "query", 2, 1)
        assert store.read().num_rows == 0
    with redis.Redis.from_url(redis_address) as client:
        names: object = client.keys("heavy:1:*")
        assert names == []
