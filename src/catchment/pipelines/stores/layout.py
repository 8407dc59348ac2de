"""What a table of a real-time store is made of, apart from its columns, and the names that it may have.

Names of tables are checked here once, for every store alike, so that a pipeline can move from one to another: they become
parts of longer names, which PostgreSQL would silently cut after 63 bytes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import pyarrow

from catchment.pipelines.stores.errors import StoreRefused

DELETED: Final = "__deleted"
WRITTEN: Final = "__written"
_OWN_COLUMNS: Final = (DELETED, WRITTEN)
_TABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_RESERVED_TABLES: Final = ("sqlite_", "catchment_", "pg_")
_COLUMN_BYTES: Final = 63
_LARGEST_VERSION: Final = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a version of a table is kept: by which key, for how long, and which column says where a window ends."""

    table: str
    key: tuple[str, ...] = ()
    version: int = 1
    ttl_ms: int | None = None
    window_end: str | None = None


@dataclasses.dataclass(frozen=True)
class Version:
    """A version of a table; windows that end at or before `until` come, or came when it was last shown, from its batch layer."""

    version: int
    until: datetime | None
    is_live: bool
    was_shown: bool
    """Whether readers see it, or saw it once: one that they never saw may be incomplete."""


@dataclasses.dataclass(frozen=True)
class Written:
    """How far a query has come in a table: `query` is the name that its batches were written under."""

    query: str
    batch_id: int


def check_table_name(table: str) -> None:
    """Refuse a name that would not survive in every store."""
    if not _TABLE_NAME.fullmatch(table) or table.lower().startswith(_RESERVED_TABLES):
        raise StoreRefused(
            f"{table!r} cannot be the name of a table in a store",
            "Take a letter and then up to 39 letters, digits or underscores; "
            f"{', '.join(_RESERVED_TABLES)} at the start are taken.",
        )


def check_layout(layout: Layout, schema: pyarrow.Schema) -> None:
    """Refuse a layout that the columns do not fit, naming the column."""
    check_table_name(layout.table)
    if not 0 < layout.version <= _LARGEST_VERSION:
        raise StoreRefused(f"table {layout.table}: version {layout.version} is not a whole number above 0")
    if layout.ttl_ms is not None and layout.ttl_ms <= 0:
        raise StoreRefused(
            f"table {layout.table}: a ttl of {layout.ttl_ms} ms would keep nothing", "Give a longer one."
        )
    _check_columns(layout.table, schema.names)
    for name in (*layout.key, *([layout.window_end] if layout.window_end else [])):
        if name not in schema.names:
            raise StoreRefused(
                f"table {layout.table}: there is no column {name!r} among {', '.join(schema.names)}",
                "Name one of these as key or end of the window, or add it to what the stage returns.",
            )
    for name in layout.key:
        _check_key(layout.table, name, schema.field(name).type)
    if layout.window_end and not _is_moment(schema.field(layout.window_end).type):
        raise StoreRefused(
            f"table {layout.table}: column {layout.window_end!r} is {schema.field(layout.window_end).type}, "
            "which cannot say where a window ends",
            "Name a column of type timestamp (with a time zone).",
        )


def _check_columns(table: str, names: Sequence[str]) -> None:
    if not names:
        raise StoreRefused(f"table {table}: a table needs a column")
    seen: dict[str, str] = {}
    for name in names:
        if not name or len(name.encode()) > _COLUMN_BYTES or "\0" in name or name in _OWN_COLUMNS:
            raise StoreRefused(
                f"table {table}: {name!r} cannot be the name of a column",
                f"Take 1 to {_COLUMN_BYTES} bytes, and neither {DELETED} nor {WRITTEN}.",
            )
        # SQLite and Spark take names that differ in case alone for the same one.
        if other := seen.get(name.lower()):
            raise StoreRefused(f"table {table}: columns {other!r} and {name!r} differ in case alone", "Rename one.")
        seen[name.lower()] = name


def _check_key(table: str, name: str, kind: pyarrow.DataType) -> None:
    if pyarrow.types.is_nested(kind) or pyarrow.types.is_floating(kind):
        raise StoreRefused(
            f"table {table}: column {name!r} is {kind}, and cannot be a part of the key",
            "Stores do not agree on which of such values are equal: cast it to a string or a decimal.",
        )


def _is_moment(kind: pyarrow.DataType) -> bool:
    return bool(pyarrow.types.is_timestamp(kind)) and kind.tz is not None
