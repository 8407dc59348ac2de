"""A version of a table as a store keeps it: its columns and its layout, the names it may have, and what may change later.

Stores keep this beside the rows, as text, because their own types cannot express an Arrow schema: a changed column must be
found before it does harm, and read back as it was.

Table names are checked once, for every store alike, so that a pipeline can move from one to another: they become
parts of longer names, which PostgreSQL would silently cut after 63 bytes.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Self

import pyarrow

from catchment.pipelines.stores.store_errors import StoreRefused
from catchment.pipelines.stores.text_values import normal_type

_NEW_VERSION = "Give the pipeline a new version, fill it beside the old one, and switch."


@dataclasses.dataclass(frozen=True)
class Definition:
    """A version's columns, all of normal types, and its layout."""

    schema: pyarrow.Schema
    layout: Layout

    @classmethod
    def of(cls, schema: pyarrow.Schema, layout: Layout) -> Self:
        """From the columns that a stage returns; the column that marks tombstones is not part of the table."""
        schema = without_deleted(schema)
        check_layout(layout, schema)
        return cls(pyarrow.schema([_normal_field(layout.table, field) for field in schema]), layout)

    @classmethod
    def from_text(cls, text: str, table: str, version: int) -> Self:
        """What `to_text` has written."""
        parts = json.loads(text)
        schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(parts["schema"])))
        return cls(schema, Layout(table, tuple(parts["key"]), version, parts["ttl_ms"], parts["window_end"]))

    def to_text(self) -> str:
        """For a store's catalogue."""
        layout = self.layout
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        return json.dumps(
            {"key": layout.key, "window_end": layout.window_end, "ttl_ms": layout.ttl_ms, "schema": schema}
        )

    def after(self, wanted: Definition) -> Definition:
        """This definition with the columns that `wanted` adds; any other difference is rejected by name."""
        self._check_layout(wanted.layout)
        fields = list(self.schema)
        for field in self.schema:
            position = wanted.schema.get_field_index(field.name)
            if position < 0:
                raise StoreRefused(f"{self}: column {field.name!r} is gone", f"Bring it back, as NULL. {_NEW_VERSION}")
            if wanted.schema.field(position).type != field.type:
                raise StoreRefused(
                    f"{self}: column {field.name!r} is {field.type}, and cannot become "
                    f"{wanted.schema.field(position).type}",
                    f"Cast it, or give it another name. {_NEW_VERSION}",
                )
        for field in wanted.schema:
            if self.schema.get_field_index(field.name) < 0:
                if not field.nullable:
                    raise StoreRefused(
                        f"{self}: column {field.name!r} is new, and older rows have no value for it",
                        f"Make it nullable. {_NEW_VERSION}",
                    )
                fields.append(field)
        return Definition(pyarrow.schema(fields), wanted.layout)

    def _check_layout(self, wanted: Layout) -> None:
        if wanted.key != self.layout.key:
            raise StoreRefused(
                f"{self}: its key is {_names(self.layout.key)}, and cannot become {_names(wanted.key)}", _NEW_VERSION
            )
        if wanted.window_end != self.layout.window_end:
            raise StoreRefused(
                f"{self}: windows end at {self.layout.window_end or 'no column'}, and cannot end at "
                f"{wanted.window_end or 'none'}",
                _NEW_VERSION,
            )

    def __str__(self) -> str:
        return f"table {self.layout.table}, version {self.layout.version}"


def without_deleted(schema: pyarrow.Schema) -> pyarrow.Schema:
    """The columns without the mark of tombstones."""
    position = schema.get_field_index(DELETED)
    return schema if position < 0 else schema.remove(position)


def shown_columns(definitions: Iterable[Definition]) -> pyarrow.Schema:
    """The columns that a view over several versions has; a column must have one type in all of them."""
    fields: dict[str, pyarrow.Field] = {}
    for definition in definitions:
        for field in definition.schema:
            first = fields.setdefault(field.name, pyarrow.field(field.name, field.type))
            if first.type != field.type:
                raise StoreRefused(
                    f"{definition}: column {field.name!r} is {field.type}, but {first.type} in another version, "
                    "and readers see both under one name",
                    "Cast it, give it another name, or drop the other version first.",
                )
    return pyarrow.schema(list(fields.values()))


def _normal_field(table: str, field: pyarrow.Field) -> pyarrow.Field:
    kind = normal_type(field.type)
    if kind is None:
        raise StoreRefused(
            f"table {table}: column {field.name!r} is {field.type}, which stores cannot hold",
            "Cast it to a number, text, a date or a timestamp.",
        )
    return pyarrow.field(field.name, kind, nullable=field.nullable)


def _names(key: tuple[str, ...]) -> str:
    return ", ".join(key) or "empty"


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
    """Whether readers see it, or saw it once: a version that was never shown may be incomplete."""


@dataclasses.dataclass(frozen=True)
class Written:
    """The newest batch of a query in a table: `query` is the name that its batches were written under."""

    query: str
    batch_id: int


def check_table_name(table: str) -> None:
    """Reject a name that not every store supports."""
    if not _TABLE_NAME.fullmatch(table) or table.lower().startswith(_RESERVED_TABLES):
        raise StoreRefused(
            f"{table!r} cannot be the name of a table in a store",
            "Take a letter and then up to 39 letters, digits or underscores; "
            f"{', '.join(_RESERVED_TABLES)} at the start are taken.",
        )


def check_layout(layout: Layout, schema: pyarrow.Schema) -> None:
    """Reject a layout that does not fit the columns, naming the column."""
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
