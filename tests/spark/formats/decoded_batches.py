"""A batch of raw records through a `Decoding`, as a source does it in a task: pickled, and asked for the wanted columns."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa

from catchment.spark.formats.decoder import arrow_type
from catchment.spark.formats.decoding import Decoding

RAW = {"key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}


def raw_batch(values: list[bytes | None], keys: list[bytes | None] | None = None) -> Any:
    rows = len(values)
    columns = [keys or [None] * rows, values, ["orders"] * rows, [3] * rows, list(range(100, 100 + rows))]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, RAW.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(RAW))


def load(topics: tuple[str, ...] = ("orders",), /, **options: str) -> Decoding:
    """The decoding of a query."""
    return Decoding.read(options, topics)


def through(decoding: Decoding, batch: Any, *wanted: str) -> list[dict[str, Any]]:
    """The rows that come out, of a batch that holds only what must be read."""
    types = {**RAW, **{name: arrow_type(data_type) for name, data_type in decoding.fields()}}
    schema = pa.schema([(name, types[name]) for name in wanted])
    sent: Decoding = pickle.loads(pickle.dumps(decoding))
    result = sent.apply(batch.select(sent.raw_columns(wanted)), schema)
    result.validate(full=True)
    assert result.schema == schema
    rows: list[dict[str, Any]] = result.to_pylist()
    return rows


def column(decoding: Decoding, values: list[bytes | None]) -> list[Any]:
    """What the column value shows."""
    return [row["value"] for row in through(decoding, raw_batch(values), "value")]
