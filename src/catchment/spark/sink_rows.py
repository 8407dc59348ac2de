"""The rows that Spark hands to the sink, as the producer takes them: the right columns, by topic, in pieces of a good size.

The columns are those of Spark's own Kafka sink. Columns it does not know are not written, so the rows of a source can be
written as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow
import pyarrow.compute
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from catchment.client.errors import SettingsError

_PIECE_BYTES: Final = 8 * 1024 * 1024
"""Small batches cost a request each; a piece of this size fills batches for several partitions."""
_BYTES: Final = (StringType, BinaryType)
_TYPES: Final[dict[str, tuple[tuple[type[DataType], ...], str]]] = {
    "topic": ((StringType,), "string"),
    "key": (_BYTES, "string or binary"),
    "value": (_BYTES, "string or binary"),
    "headers": ((ArrayType,), "array<struct<key:string,value:binary>>"),
    "partition": ((IntegerType,), "int"),
    "timestamp": ((TimestampType, DoubleType), "timestamp or double"),
}
_MICROSECONDS_PER_SECOND: Final = 1_000_000


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse rows that cannot be written, before a task does."""
    for field in schema.fields:
        types, wanted = _TYPES.get(field.name, ((DataType,), ""))
        if not isinstance(field.dataType, types) or (field.name == "headers" and not _is_headers(field.dataType)):
            raise SettingsError(
                f"the column {field.name} is of type {field.dataType.simpleString()}",
                f"It must be {wanted}: cast it, or give it another name.",
            )
    if "value" not in schema.names:
        raise SettingsError(
            f"there is no column value among {', '.join(schema.names) or 'no columns'}",
            "Make one of type string or binary, such as by to_json(struct('*')).",
        )
    if topic is None and "topic" not in schema.names:
        raise SettingsError("no topic is named", 'Add .option("topic", "…") or a column topic.')


def pieces(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.Table]:
    """Batches joined to pieces worth a write each; without rows there are none."""
    waiting: list[pyarrow.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= _PIECE_BYTES:
            yield pyarrow.Table.from_batches(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield pyarrow.Table.from_batches(waiting)


def by_topic(rows: pyarrow.Table, topic: str | None) -> Iterator[tuple[str, pyarrow.Table]]:
    """Each topic, and the columns of its rows that are written, in their order."""
    written = rows.select([name for name in rows.column_names if name in _TYPES and name != "topic"])
    if "timestamp" in written.column_names:
        written = _with_times(written)
    if topic is not None:
        yield topic, written
        return
    topics = rows.column("topic")
    if topics.null_count:
        raise SettingsError(
            f"{topics.null_count} rows have no topic",
            "Fill the column topic, or set the option topic, which is for all rows.",
        )
    names = topics.unique().to_pylist()
    for name in names:
        yield name, written if len(names) == 1 else written.filter(pyarrow.compute.equal(topics, name))


def _with_times(rows: pyarrow.Table) -> pyarrow.Table:
    """Spark lets numbers stand for seconds since 1970."""
    times = rows.column("timestamp")
    if not pyarrow.types.is_floating(times.type):
        return rows
    microseconds = pyarrow.compute.multiply(times, _MICROSECONDS_PER_SECOND).cast(pyarrow.int64(), safe=False)
    place = rows.column_names.index("timestamp")
    return rows.set_column(place, "timestamp", microseconds.cast(pyarrow.timestamp("us", "UTC")))


def _is_headers(kind: DataType) -> bool:
    element = kind.elementType if isinstance(kind, ArrayType) else None
    return isinstance(element, StructType) and [(field.name, type(field.dataType)) for field in element.fields] == [
        ("key", StringType),
        ("value", BinaryType),
    ]
