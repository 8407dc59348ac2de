"""The rows that Spark hands to the sink, as the producer takes them: the right columns, by topic, in pieces of a good size.

The columns are those of Spark's own Kafka sink. Columns it does not know are not written, so the rows of a source can be
written as they are.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final

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
    "headers": ((ArrayType, StringType), "array<struct<key:string,value:binary>>, or to_json of that"),
    "partition": ((IntegerType,), "int"),
    "timestamp": ((TimestampType, DoubleType), "timestamp or double"),
}
_HEADERS: Final = pyarrow.list_(pyarrow.struct({"key": pyarrow.string(), "value": pyarrow.binary()}))
_MICROSECONDS_PER_SECOND: Final = 1_000_000


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse rows that cannot be written, before a task does."""
    for field in schema.fields:
        types, wanted = _TYPES.get(field.name, ((DataType,), ""))
        is_array = field.name == "headers" and isinstance(field.dataType, ArrayType)
        if not isinstance(field.dataType, types) or (is_array and not _is_headers(field.dataType)):
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
    if "headers" in written.column_names:
        written = _with_headers(written)
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


def _with_headers(rows: pyarrow.Table) -> pyarrow.Table:
    """Headers may come as text: Spark takes the longer for every row of a column of arrays the more rows it has sent."""
    texts = rows.column("headers")
    if pyarrow.types.is_list(texts.type):
        return rows
    place = rows.column_names.index("headers")
    if texts.null_count == len(texts):
        return rows.remove_column(place)
    headers = [None if text is None else headers_from_json(text) for text in texts.to_pylist()]
    return rows.set_column(place, "headers", pyarrow.array(headers, _HEADERS))


def headers_from_json(text: str) -> list[tuple[str, bytes | None]]:
    """What Spark's `to_json` makes of headers, back again."""
    try:
        return [_header(one["key"], one.get("value")) for one in json.loads(text)]
    except (ValueError, TypeError, LookupError, AttributeError):
        raise SettingsError(
            f"these are no headers: {text[:100]}",
            'Text in the column headers must be to_json of an array of structs: [{"key":"…","value":"base64"}].',
        ) from None


def _header(key: Any, value: Any) -> tuple[str, bytes | None]:
    if not isinstance(key, str):
        raise TypeError("a header's key is text")
    return key, None if value is None else b64decode(value, validate=True)


def _is_headers(kind: DataType) -> bool:
    element = kind.elementType if isinstance(kind, ArrayType) else None
    return isinstance(element, StructType) and [(field.name, type(field.dataType)) for field in element.fields] == [
        ("key", StringType),
        ("value", BinaryType),
    ]
