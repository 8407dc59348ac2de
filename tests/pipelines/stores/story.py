"""A sequence of batches with the known state after each: every writer must reach it, whatever crashes happen.

It is written to two tables: one with a key, where rows come, change and go, and one without, where a batch too many would show.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow
from tests.pipelines.stores.boards import KEY, SCHEMA, Cell, cells, rows, tombstones

from catchment.pipelines.stores.store import Layout, RealTimeStore
from catchment.pipelines.stores.store_opening import open_store

_QUERY = "story"
_HOURS = 5


@contextlib.contextmanager
def _tables(address: str, name: str) -> Iterator[tuple[RealTimeStore, RealTimeStore]]:
    with open_store(address, f"keyed_{name}") as keyed, open_store(address, f"added_{name}") as added:
        yield keyed, added


def prepare(address: str, name: str) -> None:
    """Make the two tables, whether they are there or not."""
    with _tables(address, name) as (keyed, added):
        keyed.prepare(SCHEMA, Layout(f"keyed_{name}", KEY, window_end="end"))
        added.prepare(SCHEMA, Layout(f"added_{name}", window_end="end"))


def tell(address: str, name: str, batch_id: int) -> None:
    """Write a batch, whether it is there or not: new counts for every hour, of which one goes at once."""
    counts = rows([("north", number, 10 * batch_id + number) for number in range(_HOURS)])
    kept = counts.append_column("__deleted", pyarrow.array([False] * _HOURS))
    with _tables(address, name) as (keyed, added):
        keyed.write(pyarrow.concat_tables([kept, tombstones([("north", batch_id % _HOURS)])]), _QUERY, batch_id, 1)
        added.write(counts, _QUERY, batch_id, 1)


def check(address: str, name: str, allowed: set[int | None]) -> None:
    """Each table holds what it held after the batch that it knows as its last one, which is one of those allowed."""
    with _tables(address, name) as (keyed, added):
        last = keyed.last_batch(_QUERY)
        assert last in allowed
        assert cells(keyed.read()) == _keyed_after(last)
        last = added.last_batch(_QUERY)
        assert last in allowed
        assert cells(added.read()) == _added_after(last)


def _keyed_after(last: int | None) -> list[Cell]:
    if last is None:
        return []
    return [("north", number, 10 * last + number) for number in range(_HOURS) if number != last % _HOURS]


def _added_after(last: int | None) -> list[Cell]:
    batches = range(1, 1 if last is None else last + 1)
    return sorted(("north", number, 10 * batch + number) for batch in batches for number in range(_HOURS))
