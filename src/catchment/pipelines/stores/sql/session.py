"""A database transaction, as the code that all SQL stores share uses it."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow


class Session(abc.ABC):
    """An open transaction. Statements with parameters hold `?` for each, and no names but our own."""

    earliest: str
    """A literal of the type of moments that is smaller than all of them."""
    moment_type: str

    @abc.abstractmethod
    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a statement; its rows, if it has any."""

    @abc.abstractmethod
    def change(self, statement: str) -> int:
        """Run a statement that changes rows; how many."""

    @abc.abstractmethod
    def upsert(self, table: str, rows: pyarrow.Table, key: Sequence[str]) -> None:
        """Insert rows; with a key, replace those that have it."""

    @abc.abstractmethod
    def delete(self, table: str, keys: pyarrow.Table) -> None:
        """Delete the rows that have these keys."""

    @abc.abstractmethod
    def fetch(self, relation: str, schema: pyarrow.Schema) -> pyarrow.Table:
        """These columns of all rows of a table or view."""

    @abc.abstractmethod
    def lock_definitions(self, view: str) -> None:
        """Lock definitions and the view against other transactions until the end of this one."""

    @abc.abstractmethod
    def has_relation(self, name: str) -> bool:
        """Whether there is a table or view of this name."""

    @abc.abstractmethod
    def replace_view(self, name: str, query: str) -> None:
        """Create or replace a view with the result of a query."""

    @abc.abstractmethod
    def type_of(self, kind: pyarrow.DataType) -> str:
        """The database's type for the values of an Arrow column."""


def quoted(name: str) -> str:
    """A name as an identifier, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Names as a list of identifiers."""
    return ", ".join(quoted(name) for name in names)


def upsert_clause(names: Sequence[str], key: Sequence[str]) -> str:
    """The clause that replaces a row whose key exists."""
    if not key:
        return ""
    others = [name for name in names if name not in key]
    assert others, "a table has a column that says when a row was written"
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
    return f" ON CONFLICT ({listed(key)}) DO UPDATE SET {changes}"
