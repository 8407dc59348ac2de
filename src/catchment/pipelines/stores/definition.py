"""A version of a table as a store remembers it: its columns and its layout, and what of them may change later.

Stores keep this beside the rows, as text, because none of them tells an Arrow schema from its own types: a changed column must be
found before it has done harm, and read back as what it was.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable
from typing import Self

import pyarrow

from catchment.pipelines.stores.columns import normal_type
from catchment.pipelines.stores.errors import StoreRefused
from catchment.pipelines.stores.layout import DELETED, Layout, check_layout

_NEW_VERSION = "Give the pipeline a new version, fill it beside the old one, and switch."


@dataclasses.dataclass(frozen=True)
class Definition:
    """A version's columns, all of normal types, and its layout."""

    schema: pyarrow.Schema
    layout: Layout

    @classmethod
    def of(cls, schema: pyarrow.Schema, layout: Layout) -> Self:
        """Of the columns that a stage returns; tombstones are no column of the table."""
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
        """This definition with the columns that `wanted` adds; whatever else differs is refused by name."""
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
