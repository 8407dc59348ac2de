"""The records of a trial: topics that are lists of batches, kept on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

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
