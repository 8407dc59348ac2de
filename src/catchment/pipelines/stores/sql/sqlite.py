"""SQLite as a real-time store: one file, no server.

Behaviour
    The file is in WAL mode, so readers never wait for the writer, nor the writer for them; a second writer waits `busy_timeout_ms`.
    A commit is on the disk when it returns. Timestamps and dates are text that sorts by time, decimals and JSON are text, bytes are
    blobs; NaN, which SQLite does not support, is the text NaN.
Gaps
    WAL needs a local file system. A reader that holds its transaction open for long lets the WAL file grow.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyarrow import compute, types

from catchment.pipelines.ownership.owner import Asking, Found, Owner
from catchment.pipelines.stores.definition import Version
from catchment.pipelines.stores.sql.session import Session, listed, quoted, upsert_clause
from catchment.pipelines.stores.sql.store import SqlStore
from catchment.pipelines.stores.store import Clock
from catchment.pipelines.stores.store_errors import StoreAway, StoreError, StoreRefused
from catchment.pipelines.stores.text_values import from_text, to_text

BUSY_TIMEOUT_MS: Final = 10_000
_AWAY: Final = {
    sqlite3.SQLITE_BUSY: "Another program holds the file: let it finish its transaction.",
    sqlite3.SQLITE_LOCKED: "Another program holds the file: let it finish its transaction.",
    sqlite3.SQLITE_FULL: "Make room on the disk.",
    sqlite3.SQLITE_IOERR: "Check the disk: the operating system could not read or write.",
    sqlite3.SQLITE_NOMEM: "Make room in memory.",
}
_REFUSED: Final = {
    sqlite3.SQLITE_READONLY: "Let this user write to the file and its folder, on a file system that is not read-only.",
    sqlite3.SQLITE_CANTOPEN: "Check the path, that this user may write to its folder, and that the file system is not read-only.",
    sqlite3.SQLITE_NOTADB: "Name another file, or move this one away: it is no SQLite database.",
    sqlite3.SQLITE_CORRUPT: "The file is damaged: restore it, or move it away and recompute it.",
    sqlite3.SQLITE_TOOBIG: "Store smaller values.",
}
_PRIMARY_CODE: Final = 0xFF


class SqliteStore(SqlStore):
    """A table in a file of SQLite."""

    def __init__(
        self, path: Path, table: str, ttl_ms: int | None, clock: Clock, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS
    ) -> None:
        super().__init__(table, ttl_ms, clock)
        self._path = path
        self._busy_timeout_ms = busy_timeout_ms
        self._connection: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def _transaction(self, *, to_write: bool = True) -> Iterator[Session]:
        try:
            connection = self._connection or self._connect()
            # A reading transaction that becomes a writing one later could not wait for a lock.
            connection.execute("BEGIN IMMEDIATE" if to_write else "BEGIN")
            yield _SqliteSession(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise self._explained(error) from error
        except BaseException:
            self._roll_back()
            raise

    def _connect(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreRefused(
                f"SQLite at {self._path}: {error}", "Check the path, and who may write there."
            ) from error
        connection = sqlite3.connect(
            self._path, timeout=self._busy_timeout_ms / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def found(self, version: int, asking: Asking) -> Found:
        """As the contract says, without a connection, which would create the file."""
        return super().found(version, asking) if self._path.exists() else Found()

    def owners(self) -> tuple[Owner, ...]:
        """As the contract says."""
        return super().owners() if self._path.exists() else ()

    def versions(self) -> list[Version]:
        """As the contract says."""
        return super().versions() if self._path.exists() else []

    def drop(self) -> None:
        """As the contract says."""
        if self._path.exists():
            super().drop()

    def _roll_back(self) -> None:
        """Roll back the open transaction; a connection that fails at that is not used again."""
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()

    def _explained(self, error: sqlite3.Error) -> StoreError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
        message = f"SQLite at {self._path}: {error}"
        return StoreAway(message, _AWAY[code]) if code in _AWAY else StoreRefused(message, _REFUSED.get(code))

    def close(self) -> None:
        """As the contract says."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class _SqliteSession(Session):
    earliest = "''"
    moment_type = "TEXT"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()

    def change(self, statement: str) -> int:
        return self._connection.execute(statement).rowcount

    def upsert(self, table: str, rows: pyarrow.Table, key: Sequence[str]) -> None:
        names = rows.column_names
        statement = f"INSERT INTO {quoted(table)} ({listed(names)}) VALUES ({', '.join('?' * len(names))})"
        self._connection.executemany(statement + upsert_clause(names, key), _tuples(rows))

    def delete(self, table: str, keys: pyarrow.Table) -> None:
        condition = " AND ".join(f"{quoted(name)} = ?" for name in keys.column_names)
        self._connection.executemany(f"DELETE FROM {quoted(table)} WHERE {condition}", _tuples(keys))

    def fetch(self, relation: str, schema: pyarrow.Schema) -> pyarrow.Table:
        rows = self.execute(f"SELECT {listed(schema.names)} FROM {quoted(relation)}")
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        return pyarrow.table(
            [_column(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
        )

    def lock_definitions(self, view: str) -> None:
        """SQLite has one writing transaction at a time, and readers see an older state meanwhile."""

    def has_relation(self, name: str) -> bool:
        return bool(self.execute("SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE", name))

    def replace_view(self, name: str, query: str) -> None:
        self.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
        self.execute(f"CREATE VIEW {quoted(name)} AS {query}")

    def type_of(self, kind: pyarrow.DataType) -> str:
        if types.is_integer(kind):
            return "INTEGER"
        if types.is_boolean(kind):
            return "BOOLEAN"
        if types.is_floating(kind):
            return "REAL"
        return "BLOB" if types.is_binary(kind) else "TEXT"


def _is_kept(kind: pyarrow.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (types.is_integer, types.is_boolean, types.is_string, types.is_binary))


def _tuples(rows: pyarrow.Table) -> Iterator[tuple[object, ...]]:
    return zip(*[_values(column) for column in rows.columns], strict=True)


def _values(column: pyarrow.ChunkedArray) -> list[object]:
    if types.is_floating(column.type):
        values: list[object] = column.to_pylist()
        # SQLite keeps non-numeric text as text even in a column of numbers, but turns a NaN into NULL.
        return ["NaN" if value != value else value for value in values] if _has_nan(column) else values
    kept: list[object] = (column if _is_kept(column.type) else to_text(column)).to_pylist()
    return kept


def _has_nan(column: pyarrow.ChunkedArray) -> bool:
    return bool(compute.any(compute.is_nan(column)).as_py())


def _column(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    if types.is_boolean(kind):
        return pyarrow.array([None if value is None else bool(value) for value in values], kind)
    if types.is_floating(kind):
        return pyarrow.array([float(value) if isinstance(value, str) else value for value in values], kind)
    if _is_kept(kind):
        return pyarrow.array(values, kind)
    return from_text(pyarrow.array(values, pyarrow.string()), kind)
