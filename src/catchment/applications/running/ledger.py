"""What a generator sends, written before it is sent: the record that everything else is checked against.

It is an SQLite file, so that another process can read it while it grows. It is independent of brokers and of Spark.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, NamedTuple, Self

Deed = Literal["ok", "duplicate", "late", "broken"]
"""Sent once; sent more often; sent long after it happened; damaged, or against the rules of the pipeline."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, deed TEXT NOT NULL, detail TEXT NOT NULL, copies INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS resent (number INTEGER PRIMARY KEY, copies INTEGER NOT NULL);
"""
_BUSY_TIMEOUT_S: Final = 30.0


class Entry(NamedTuple):
    """One event, and how many copies of it are sent."""

    number: int
    deed: Deed
    detail: str
    """What was done to it: how it was broken, for instance."""
    copies: int


class Ledger:
    """The generator's own account. One process writes; any number read."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def next_number(self) -> int:
        """The first that has no entry."""
        (last,) = self._connection.execute("SELECT coalesce(max(number), -1) FROM events").fetchone()
        return int(last) + 1

    def write(self, entries: Sequence[Entry]) -> None:
        """All of them, durably for other processes, before this returns."""
        with self._transaction():
            self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", entries)

    def write_resent(self, numbers: Iterable[int]) -> None:
        """Note that the log may have one copy more of each: the first attempt to send it had no response."""
        with self._transaction():
            self._connection.executemany(
                "INSERT INTO resent VALUES (?, 1) ON CONFLICT (number) DO UPDATE SET copies = copies + 1",
                [(number,) for number in numbers],
            )

    def read_from(self, number: int) -> list[Entry]:
        """The entries from a number on."""
        rows = self._connection.execute("SELECT * FROM events WHERE number >= ? ORDER BY number", (number,))
        return [Entry(*row) for row in rows]

    def resent(self) -> dict[int, int]:
        """How many more copies of each number the log may have."""
        return dict(self._connection.execute("SELECT number, copies FROM resent"))

    def _transaction(self) -> _Transaction:
        return _Transaction(self._connection)


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
