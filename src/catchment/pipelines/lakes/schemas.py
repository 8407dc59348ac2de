"""The columns of a lake: from Spark's types to Arrow's, and what may change from one batch to the next.

All columns are nullable, whatever Spark derives for a batch: that may differ for the next one. Timestamps are in UTC and microseconds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow

from catchment.pipelines.lakes.lake_errors import LakeRefused

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_FORBIDDEN: Final = re.compile(r"[ ,;{}()\n\t=]")
_ALIAS: Final = "Give it an alias in the stage that the lake is written from."


def arrow_schema(schema: StructType) -> pyarrow.Schema:
    """The columns as the lake keeps them; LakeRefused where it cannot."""
    from pyspark.sql.pandas.types import to_arrow_type

    seen: dict[str, str] = {}
    fields = []
    for field in schema.fields:
        if _FORBIDDEN.search(field.name) or not field.name:
            raise LakeRefused(f"a lake cannot have a column named {field.name!r}", _ALIAS)
        if (other := seen.setdefault(field.name.lower(), field.name)) is not field.name:
            raise LakeRefused(f"the columns {other} and {field.name} differ by case alone, or not at all", _ALIAS)
        try:
            kind = to_arrow_type(field.dataType, timezone="UTC")
        except (TypeError, ValueError, RuntimeError) as cause:
            raise _no_type(field.name, field.dataType.simpleString()) from cause
        fields.append(pyarrow.field(field.name, settled(kind, field.name)))
    return pyarrow.schema(fields)


def settled(kind: pyarrow.DataType, column: str) -> pyarrow.DataType:
    """A type as it is stored: nullable throughout, and among those that Parquet, Delta and Spark share."""
    types = pyarrow.types
    if types.is_struct(kind):
        inner = [kind.field(index) for index in range(kind.num_fields)]
        return pyarrow.struct([pyarrow.field(one.name, settled(one.type, f"{column}.{one.name}")) for one in inner])
    if types.is_map(kind):
        return pyarrow.map_(settled(kind.key_type, f"{column}.key"), settled(kind.item_type, f"{column}.value"))
    if types.is_list(kind) or types.is_large_list(kind):
        return pyarrow.list_(pyarrow.field("element", settled(kind.value_type, f"{column}.element")))
    if types.is_timestamp(kind):
        return pyarrow.timestamp("us", "UTC" if kind.tz else None)
    if types.is_large_string(kind):
        return pyarrow.string()
    if types.is_large_binary(kind):
        return pyarrow.binary()
    if not _is_kept(kind):
        raise _no_type(column, str(kind))
    return kind


def _is_kept(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(
        types.is_signed_integer(kind)
        or types.is_boolean(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_decimal128(kind)
        or types.is_date32(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
    )


def _no_type(column: str, kind: str) -> LakeRefused:
    return LakeRefused(
        f"a lake cannot keep column {column} of type {kind}", "Cast it to another type, or leave it out."
    )


def merged(known: pyarrow.Schema, incoming: pyarrow.Schema, location: str) -> pyarrow.Schema:
    """The known columns and the new ones behind them; LakeRefused, with its name, where a column has changed its type."""
    names = {name.lower(): name for name in known.names}
    added = []
    for field in incoming:
        name = names.get(field.name.lower())
        if name is None:
            added.append(field)
        elif name != field.name:
            raise LakeRefused(f"the lake {location} calls column {field.name} {name}", _ALIAS)
        elif known.field(name).type != field.type:
            raise LakeRefused(
                f"column {name} is {known.field(name).type} in the lake {location}, and is {field.type} now",
                "Cast it back, or write a lake of its own at another path.",
            )
    return pyarrow.schema([*known, *added])


def conformed(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """A batch of Spark's in the lake's types: time zones and widths of offsets may differ, values do not."""
    if batch.schema.equals(schema):
        return batch
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
