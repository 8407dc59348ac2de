"""Topics as files, for trials: each topic a folder, each batch of records a file in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import feather

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
RECORD: Final = pa.schema(
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
_SUFFIX: Final = ".arrow"


@dataclass(frozen=True)
class Record:
    """One record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp: datetime
    headers: tuple[tuple[str, bytes], ...] = ()

    def header(self, name: str) -> str:
        """The value of a header as text; nothing if there is none."""
        return next((value.decode() for key, value in self.headers if key == name), "")


@dataclass(frozen=True)
class TrialLog:
    """All topics of one trial. Every topic has one partition."""

    folder: Path
    _ends: dict[str, int] = field(default_factory=dict)

    def append(self, topic: str, batches: Sequence[Sequence[Record]]) -> None:
        """Add batches behind those that a topic has."""
        folder = self.folder / topic
        folder.mkdir(parents=True, exist_ok=True)
        for number, records in enumerate(batches, start=count(folder)):
            start = self._ends.get(topic, 0)
            rows = [_row(topic, start + place, record) for place, record in enumerate(records)]
            feather.write_feather(pa.Table.from_pylist(rows, RECORD), str(folder / f"{number:05}{_SUFFIX}"))
            self._ends[topic] = start + len(records)


def count(folder: Path) -> int:
    """How many batches a topic has."""
    return len(list(folder.glob(f"*{_SUFFIX}")))


def read_batch(folder: Path, number: int) -> pa.Table:
    """The records of one batch."""
    return feather.read_table(folder / f"{number:05}{_SUFFIX}", memory_map=False)


def _row(topic: str, offset: int, record: Record) -> dict[str, object]:
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
