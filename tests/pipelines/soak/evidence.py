"""What is in the ledger, the log and the stores, read back by clients that are not ours: the evidence for the balance."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
import pyarrow
import redis
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from tests.client.logs import KafkaLogs
from tests.pipelines.soak.town import Stores

from catchment.applications.emergency.simulation import CREWS
from catchment.applications.running.layout import Layout
from catchment.applications.running.ledger import Ledger

_TEXT: Final = pyarrow.string()
_NUMBER: Final = pyarrow.int64()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMEOUT_S: Final = 150.0
_LATE: Final = "late: watermark "
_BOARD: Final = 'SELECT district, start, "end", "count", calls, crew FROM board'
_CLOSED: Final = 'SELECT district, start, "end", "count" FROM closed'
_REPORT: Final = {"number": _NUMBER, "district": _TEXT, "origin": _TEXT, "kind": _TEXT, "at_us": _NUMBER}
SCHEMAS: Final = {
    "sent": {"number": _NUMBER, "deed": _TEXT, "copies": _NUMBER, "resent": _NUMBER},
    "log": {"part": _NUMBER, "place": _NUMBER, "number": _NUMBER, "at_us": _NUMBER},
    "quarantined": {"kind": _TEXT, "part": _NUMBER, "place": _NUMBER, "number": _NUMBER, "watermark_us": _NUMBER},
    "clean": _REPORT,
    "lake": _REPORT,
    "boards": {
        "store": _TEXT,
        "district": _TEXT,
        "start_us": _NUMBER,
        "end_us": _NUMBER,
        "count": _NUMBER,
        "calls": _NUMBER,
        "crew": _NUMBER,
    },
    "closed": {"sink": _TEXT, "district": _TEXT, "start_us": _NUMBER, "end_us": _NUMBER, "count": _NUMBER},
    "crews": {"district": _TEXT, "crew": _NUMBER},
    "alerts_written": {"topic": _TEXT, "id": _TEXT, "district": _TEXT, "end_us": _NUMBER},
}
"""The tables of the evidence. A record's partition and offset are `part` and `place`."""
Rows = Iterator[tuple[Any, ...]]


def read_back(layout: Layout, servers: str, stores: Stores) -> dict[str, pyarrow.Table]:
    """All there is by now."""
    topics = _Topics(servers)
    rows: dict[str, Rows] = {
        "sent": _sent(layout),
        "log": _log(topics, layout.source),
        "quarantined": _quarantined(topics, layout),
        "clean": (_report(json.loads(one.value() or b"")) for one in topics.messages(layout.clean)),
        "lake": map(_report, DeltaTable(layout.lake or "").to_pyarrow_table().to_pylist()),
        "boards": _boards(stores),
        "closed": _closed(stores),
        "crews": iter(CREWS.items()),
        "alerts_written": _alerts_written(topics, layout),
    }
    return {name: table(name, list(found)) for name, found in rows.items()}


def table(name: str, rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    """One table of the evidence, of its rows."""
    schema = pyarrow.schema(list(SCHEMAS[name].items()))
    return pyarrow.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


class _Topics:
    """All partitions of topics."""

    def __init__(self, servers: str) -> None:
        self._logs = KafkaLogs(servers)
        self._topics = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=_TIMEOUT_S).topics

    def messages(self, topic: str) -> Iterator[Message]:
        for partition in sorted(self._topics[topic].partitions):
            yield from self._logs.messages(topic, partition)


def _sent(layout: Layout) -> Rows:
    with Ledger(layout.ledger) as ledger:
        resent = ledger.resent()
        for one in ledger.read_from(0):
            yield one.number, one.deed, one.copies, resent.get(one.number, 0)


def _log(topics: _Topics, source: str) -> Rows:
    for one in topics.messages(source):
        number = int(_headers(one)["id"])
        yield one.partition(), one.offset(), number, _event_time_us(one.value())


def _quarantined(topics: _Topics, layout: Layout) -> Rows:
    for kind, topic in (("late", layout.late), ("rejected", layout.quarantine)):
        for headers in map(_headers, topics.messages(topic)):
            places = (int(headers[f"catchment.{name}"]) for name in ("partition", "offset"))
            watermark = headers["catchment.error"].partition(_LATE)[2]
            watermark_us = _us(f"{watermark}Z") if watermark else None
            yield kind, *places, int(headers["id"]), watermark_us


def _alerts_written(topics: _Topics, layout: Layout) -> Rows:
    assert layout.commands is not None, "the main job gives commands"
    for topic in (layout.commands, f"{layout.pipeline}.alerts"):
        for one in topics.messages(topic):
            alert = json.loads(one.value() or b"")
            yield topic, alert["id"], alert["key"]["district"], _us(alert["event_time"])
    for one in topics.messages(layout.acted):
        yield layout.acted, json.loads(one.value() or b"")["id"], None, None


def _boards(stores: Stores) -> Rows:
    with closing(sqlite3.connect(stores.sqlite)) as lite:
        for row in lite.execute(_BOARD):
            yield "sqlite", row[0], _us(row[1]), _us(row[2]), *row[3:]
    with psycopg.connect(stores.postgresql) as postgresql:
        for row in postgresql.execute(_BOARD):
            yield "postgresql", row[0], _us(row[1]), _us(row[2]), *row[3:]
    with redis.Redis.from_url(stores.redis, decode_responses=True) as client:
        version = client.hget("board:view", "version")
        for key in client.scan_iter(f"board:{version}:speed:*", count=1000):
            found: Any = client.hgetall(key)
            counts = (int(found[name]) if name in found else None for name in ("count", "calls", "crew"))
            yield "redis", found["district"], _us(found["start"]), _us(found["end"]), *counts


def _closed(stores: Stores) -> Rows:
    """The rows of a stage that gives each window once, when it is over."""
    if DeltaTable.is_deltatable(str(stores.lake)):
        for one in DeltaTable(str(stores.lake)).to_pyarrow_table().to_pylist():
            yield "lake", one["district"], _us(one["start"]), _us(one["end"]), one["count"]
    with closing(sqlite3.connect(stores.sqlite)) as lite:
        for row in lite.execute(_CLOSED):
            yield "sqlite", row[0], _us(row[1]), _us(row[2]), row[3]
    with psycopg.connect(stores.postgresql) as postgresql:
        for row in postgresql.execute(_CLOSED):
            yield "postgresql", row[0], _us(row[1]), _us(row[2]), row[3]
    with redis.Redis.from_url(stores.redis, decode_responses=True) as client:
        version = client.hget("closed:view", "version")
        for key in client.scan_iter(f"closed:{version}:speed:*", count=1000):
            found: Any = client.hgetall(key)
            yield "redis", found["district"], _us(found["start"]), _us(found["end"]), int(found["count"])


def _report(row: dict[str, Any]) -> tuple[Any, ...]:
    return int(row["id"]), row["district"], row["origin"], row["kind"], _us(row["at"])


def _event_time_us(value: bytes | None) -> int | None:
    """None for what is broken."""
    try:
        return _us(json.loads(value or b"")["at"])
    except (ValueError, KeyError, TypeError):
        return None


def _us(moment: str | datetime) -> int:
    given = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return (given - _EPOCH) // timedelta(microseconds=1)


def _headers(message: Message) -> dict[str, str]:
    headers: Any = message.headers() or ()
    return {name: value.decode(errors="replace") for name, value in headers}
