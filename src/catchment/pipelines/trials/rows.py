"""Rows of a test as records of a topic, records as rows again, and the topics of a trial: lists of batches, kept on the driver."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import DateType, StructType, TimestampNTZType, TimestampType

from catchment.pipelines.declaration.specification import Source, Table

Row = Mapping[str, Any]
Given = Row | str | bytes | None
"""A row by its columns; or what a record holds as it is, to try what does not decode."""

TIMESTAMP: Final = "_timestamp"
KEY: Final = "_key"
DELETED: Final = "_deleted"
ERROR: Final = "_error"
STAGE: Final = "_stage"
VALUE: Final = "_value"
_SPARK_TIMES: Final = (TimestampType, TimestampNTZType, DateType)
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_RECORD: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(_HEADER)),
    ]
)
"""A record, in the columns of the source."""


def event_record(row: Given, source: Source, schema: StructType) -> Record:
    """An event. Its record has the event's own time, unless the row says otherwise in `_timestamp`."""
    if not isinstance(row, Mapping):
        return Record(None, _bytes(row), datetime.now(UTC))
    columns = {name: value for name, value in row.items() if name not in (TIMESTAMP, KEY)}
    event_time = columns.get(source.event_time) if source.event_time else None
    time = as_time(row.get(TIMESTAMP, event_time)) or datetime.now(UTC)
    return Record(_bytes(row.get(KEY)), _encoded(columns, source, schema), time)


def table_record(row: Row, table: Table) -> Record:
    """A row of a table; with `_deleted`, the end of the one that has its key."""
    columns = {name: value for name, value in row.items() if name != DELETED}
    key = json.dumps([_plain(columns.get(name)) for name in table.key]).encode()
    return Record(key, None if row.get(DELETED) else _json(columns), datetime.now(UTC))


def result_row(record: Record, schema: StructType) -> dict[str, Any]:
    """A row of a boundary."""
    return typed_row(json.loads(record.value or b"{}"), schema)


def typed_row(row: Row, schema: StructType) -> dict[str, Any]:
    """A row that was written as JSON, with its times as times."""
    return {one.name: _typed(row.get(one.name), one.dataType) for one in schema}


def aside_row(record: Record) -> dict[str, Any]:
    """A quarantined or late record: its columns as far as it has any, and why."""
    text = (record.value or b"").decode(errors="replace")
    try:
        columns = json.loads(text)
    except ValueError:
        columns = {}
    facts = {ERROR: record.header("catchment.error"), STAGE: record.header("catchment.stage"), VALUE: text}
    return (columns if isinstance(columns, dict) else {}) | facts


def as_time(value: Any) -> datetime | None:
    """A time from however a test writes it; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _encoded(columns: Row, source: Source, schema: StructType) -> bytes:
    if source.format == "text":
        return str(columns.get("value", "")).encode()
    if source.format == "csv":
        return _csv([columns.get(name) for name in schema.fieldNames()], source.delimiter or ",")
    return _json(columns)


def _csv(values: Sequence[Any], delimiter: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="").writerow(
        "" if value is None else _plain(value) for value in values
    )
    return line.getvalue().encode()


def _json(columns: Row) -> bytes:
    return json.dumps(columns, default=_plain).encode()


def _plain(value: Any) -> Any:
    """What JSON has no form for, in the form that the decoders read."""
    if isinstance(value, datetime):
        time = as_time(value)
        assert time is not None, "a datetime is a time"
        return time.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _typed(value: Any, kind: Any) -> Any:
    return as_time(value) if isinstance(kind, _SPARK_TIMES) and isinstance(value, str) else value


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


@dataclass(frozen=True)
class Record:
    """One record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp: datetime
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def header(self, name: str) -> str:
        """The value of a header as text; nothing if there is none."""
        return next(((value or b"").decode() for key, value in self.headers if key == name), "")


@dataclass(frozen=True)
class TrialLog:
    """All topics of one trial. Every topic has one partition."""

    topics: dict[str, list[list[Record]]] = field(default_factory=dict)

    def append(self, topic: str, batches: Sequence[Sequence[Record]]) -> None:
        """Add batches behind those that a topic has."""
        self.topics.setdefault(topic, []).extend(list(batch) for batch in batches)

    def read(self, topic: str) -> list[pa.RecordBatch]:
        """The records of each batch, with their offsets."""
        found = []
        offset = 0
        for batch in self.topics.get(topic, []):
            rows = [_row(topic, offset + place, record) for place, record in enumerate(batch)]
            found.append(pa.RecordBatch.from_pylist(rows, _RECORD))
            offset += len(batch)
        return found


def _row(topic: str, offset: int, record: Record) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": record.timestamp,
        "timestampType": 0,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }
