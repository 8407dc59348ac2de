"""The table that most tests of stores use: counts for each district and hour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow

from catchment.pipelines.stores.store import Layout, RealTimeStore
from catchment.pipelines.stores.store_opening import open_store

MOMENT = pyarrow.timestamp("us", tz="UTC")
SCHEMA = pyarrow.schema(
    [("district", pyarrow.string()), ("start", MOMENT), ("end", MOMENT), ("count", pyarrow.int64())]
)
WITH_TOMBSTONES = SCHEMA.append(pyarrow.field("__deleted", pyarrow.bool_()))
KEY = ("district", "start")
Cell = tuple[str, int, int | None]
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def hour(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)


def layout(version: int = 1, *, ttl_ms: int | None = None) -> Layout:
    return Layout("board", KEY, version, ttl_ms, "end")


def rows(cells: Iterable[Cell]) -> pyarrow.Table:
    """Rows of (district, hour, count)."""
    return pyarrow.Table.from_pylist(
        [
            {"district": district, "start": hour(number), "end": hour(number + 1), "count": count}
            for district, number, count in cells
        ],
        schema=SCHEMA,
    )


def tombstones(cells: Iterable[tuple[str, int]]) -> pyarrow.Table:
    return pyarrow.Table.from_pylist(
        [{"district": district, "start": hour(number), "__deleted": True} for district, number in cells],
        schema=WITH_TOMBSTONES,
    )


def board(address: str, *versions: int) -> RealTimeStore:
    """The table, prepared for these versions, or for the first one."""
    store = open_store(address, "board", clock=lambda: NOON)
    try:
        for version in versions or (1,):
            store.prepare(SCHEMA, layout(version))
    except BaseException:
        store.close()
        raise
    return store


def cells(table: pyarrow.Table) -> list[Cell]:
    """What `rows` was made from, sorted."""
    return sorted(
        (row["district"], int((row["start"] - hour(0)).total_seconds()) // 3600, row["count"])
        for row in table.to_pylist()
    )


def counts(table: pyarrow.Table) -> Sequence[int]:
    return sorted(table.column("count").to_pylist())
