"""Readers see one version, its batch layer up to one moment and its speed layer after it, whatever happens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
import pyarrow
import pytest
from tests.pipelines.stores.boards import SCHEMA, board, cells, counts, hour, layout, rows
from tests.waiting import wait_until

from catchment.pipelines.stores.store import Layout, Version, Written
from catchment.pipelines.stores.store_errors import StoreRefused
from catchment.pipelines.stores.store_opening import open_store

HOURS = 20
SWITCHES = 60


def test_windows_up_to_the_moment_come_from_the_batch_layer_and_later_ones_from_the_speed_layer(address: str) -> None:
    with board(address) as store:
        store.write(rows([("north", number, number) for number in range(6)]), "query", 0, 1)
        store.write_batch_layer(rows([("north", number, 100 + number) for number in range(6)]), 1)
        assert counts(store.read()) == [0, 1, 2, 3, 4, 5]
        # The window of hour 2 ends when hour 3 begins.
        store.switch(1, hour(3))
        assert counts(store.read()) == [3, 4, 5, 100, 101, 102]
        # What still arrives for a window of the batch layer is not seen.
        store.write(rows([("north", 0, 7), ("north", 5, 8), ("north", 6, 9)]), "query", 1, 1)
        assert counts(store.read()) == [3, 4, 8, 9, 100, 101, 102]
        store.switch(1, None)
        assert counts(store.read()) == [1, 2, 3, 4, 7, 8, 9]


def test_a_switch_goes_to_another_version_and_back(address: str) -> None:
    with board(address, 1, 2) as store:
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        store.write(rows([("north", 5, 2)]), "query 2", 0, 2)
        store.write_batch_layer(rows([("north", 1, 20), ("north", 2, 20)]), 2)
        assert cells(store.read()) == [("north", 1, 1)]
        store.switch(2, hour(3))
        assert cells(store.read()) == [("north", 1, 20), ("north", 2, 20), ("north", 5, 2)]
        assert store.versions() == [
            Version(1, None, is_live=False, was_shown=True),
            Version(2, hour(3), is_live=True, was_shown=True),
        ]
        store.switch(1, None)
        assert cells(store.read()) == [("north", 1, 1)]
        assert store.versions() == [
            Version(1, None, is_live=True, was_shown=True),
            Version(2, hour(3), is_live=False, was_shown=True),
        ]


def test_a_version_that_readers_never_saw_is_distinguished_from_one_that_they_saw(address: str) -> None:
    with board(address, 1, 2, 3) as store:
        store.write_batch_layer(rows([("north", 1, 20)]), 2)
        assert [one.was_shown for one in store.versions()] == [True, False, False]
        store.switch(3, None)
        assert [one.was_shown for one in store.versions()] == [True, False, True]
        store.drop_version(1)
        store.prepare(SCHEMA, layout(1))
        assert [one.was_shown for one in store.versions()] == [False, False, True], (
            "a recreated version was never shown"
        )


def test_a_new_version_is_shown_once_and_not_again_after_a_rollback(address: str) -> None:
    with board(address, 1, 2, 3) as store:
        store.write_batch_layer(rows([("north", 1, 20)]), 2)
        store.switch(2, hour(3))
        store.switch(1, None)
        before = store.versions()
        assert not store.show_new(2)
        assert store.versions() == before, "the moment up to which its batch layer was shown stays, too"
        assert store.show_new(3)
        assert [one.is_live for one in store.versions()] == [False, False, True]
        assert not store.show_new(3)


def test_a_new_version_is_not_shown_in_place_of_a_later_one(address: str) -> None:
    with board(address, 1, 2, 3) as store:
        store.switch(3, None)
        assert not store.show_new(2)
        assert [one.is_live for one in store.versions()] == [False, False, True]
        with pytest.raises(StoreRefused, match="version 4, is not in the store"):
            store.show_new(4)


def test_a_version_tells_its_columns_and_its_layout(address: str) -> None:
    with board(address) as store:
        store.prepare(SCHEMA.append(pyarrow.field("crew", pyarrow.int32())), layout(2))
        assert store.definition(1).schema.names == SCHEMA.names
        assert store.definition(2).schema.names == [*SCHEMA.names, "crew"]
        assert store.definition(2).layout == layout(2)
        with pytest.raises(StoreRefused, match="version 3, is not in the store"):
            store.definition(3)


def test_a_switch_is_refused_where_a_query_has_come_further_than_is_known(address: str) -> None:
    with board(address, 1, 2) as store:
        assert not store.versions()[1].is_live
        store.write(rows([("north", 1, 1)]), "query", 3, 1)
        assert not store.switch(2, None, unless_after=Written("query", 2))
        assert cells(store.read()) == [("north", 1, 1)]
        assert store.switch(2, None, unless_after=Written("query", 3))
        assert store.switch(1, None, unless_after=Written("another query", -1))
        assert cells(store.read()) == [("north", 1, 1)]


def test_the_batch_layer_that_readers_see_cannot_be_changed_under_them(address: str) -> None:
    with board(address) as store:
        store.write_batch_layer(rows([("north", number, 1) for number in range(4)]), 1)
        store.switch(1, hour(2))
        with pytest.raises(StoreRefused, match="would be seen at once"):
            store.write_batch_layer(rows([("north", 5, 2), ("north", 1, 2)]), 1)
        store.write_batch_layer(rows([("north", 2, 2), ("north", 5, 2)]), 1)
        store.clear_batch_layer(1)
        store.write_batch_layer(rows([("north", 3, 5)]), 1)
        store.switch(1, hour(9))
        assert cells(store.read()) == [("north", 0, 1), ("north", 1, 1), ("north", 3, 5)]


def test_a_recomputation_starts_over_in_an_empty_batch_layer(address: str) -> None:
    with board(address, 1, 2) as store:
        store.write_batch_layer(rows([("wrong", 1, 1), ("north", 1, 1)]), 2)
        store.clear_batch_layer(2)
        store.write_batch_layer(rows([("north", 1, 2)]), 2)
        store.write_batch_layer(rows([("north", 1, 2)]), 2)
        store.switch(2, hour(9))
        assert cells(store.read()) == [("north", 1, 2)]


def test_a_version_that_is_shown_cannot_be_dropped_and_a_dropped_one_not_written(address: str) -> None:
    with board(address, 1, 2) as store:
        with pytest.raises(StoreRefused, match="version 1 is the one that readers see"):
            store.drop_version(1)
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        store.switch(2, None)
        store.drop_version(1)
        calls: list[Callable[[], object]] = [
            lambda: store.write(rows([("north", 1, 1)]), "query", 1, 1),
            lambda: store.write_batch_layer(rows([("north", 1, 1)]), 1),
            lambda: store.switch(1, None),
            lambda: store.drop_version(1),
        ]
        for call in calls:
            with pytest.raises(StoreRefused, match="version 1, is not in the store"):
                call()
        store.prepare(SCHEMA, layout(1))
        store.switch(1, None)
        assert store.read().num_rows == 0


def test_without_windows_versions_switch_as_a_whole(address: str) -> None:
    with open_store(address, "board") as store:
        for version in (1, 2):
            store.prepare(SCHEMA, Layout("board", ("district",), version))
            store.write(rows([("north", 1, version)]), f"query {version}", 0, version)
        with pytest.raises(StoreRefused, match="has no windows"):
            store.switch(2, hour(1))
        with pytest.raises(StoreRefused, match="has no windows"):
            store.write_batch_layer(rows([("a", 1, 1)]), 2)
        store.switch(2, None)
        assert counts(store.read()) == [2]


def test_a_moment_without_a_zone_is_refused(sql_address: str) -> None:
    with board(sql_address) as store, pytest.raises(StoreRefused, match="has no time zone"):
        store.switch(1, datetime.fromisoformat("2026-01-01"))


class Reader(threading.Thread):
    """Reads on a connection of its own until it is stopped, and keeps every view that is not one of the allowed."""

    def __init__(self, address: str, is_allowed: Callable[[list[tuple[str, int, int | None]]], bool]) -> None:
        super().__init__()
        self._address = address
        self._is_allowed = is_allowed
        self.stopped = threading.Event()
        self.wrong: list[object] = []
        self.reads = 0

    def run(self) -> None:
        with open_store(self._address, "board") as store:
            while not self.stopped.is_set():
                try:
                    seen = cells(store.read())
                except Exception as error:
                    self.wrong.append(error)
                    return
                self.reads += 1
                if not self._is_allowed(seen):
                    self.wrong.append(seen)


@contextmanager
def reading(address: str, is_allowed: Callable[[list[tuple[str, int, int | None]]], bool]) -> Iterator[list[Reader]]:
    readers = [Reader(address, is_allowed) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        yield readers
    finally:
        for reader in readers:
            reader.stopped.set()
        for reader in readers:
            reader.join()
    assert [reader.wrong[:1] for reader in readers] == [[], []]
    assert min(reader.reads for reader in readers) > 3


def wait_for_reads(readers: list[Reader]) -> None:
    """Until every reader has begun and ended a look since now."""
    goals = [reader.reads + 2 for reader in readers]

    def have_looked() -> bool:
        return all(reader.reads >= goal or not reader.is_alive() for reader, goal in zip(readers, goals, strict=True))

    wait_until(have_looked, "a reader is stuck", pause_s=0.001)


def is_whole(seen: list[tuple[str, int, int | None]]) -> bool:
    """Each hour once, with the counts of one version: those of the batch layer negative, and before all others."""
    numbers = [number for _, number, _ in seen]
    values = [count or 0 for _, _, count in seen]
    is_batch = [count < 0 for count in values]
    return (
        numbers == list(range(HOURS))
        and len({abs(count) for count in values}) == 1
        and is_batch == sorted(is_batch)[::-1]
    )


def test_no_reader_sees_a_gap_a_double_or_a_mixture_while_the_view_switches(address: str) -> None:
    # Neither version is whole with a moment that belongs to the other one.
    layers = {1: (range(8), range(HOURS)), 2: (range(16), range(12, HOURS))}
    moments: dict[int, list[datetime | None]] = {
        1: [None, *map(hour, range(9))],
        2: [hour(number) for number in range(12, 17)],
    }
    with board(address, 1, 2) as store:
        for version, (batch_hours, speed_hours) in layers.items():
            store.write(rows([("north", number, version) for number in speed_hours]), f"query {version}", 0, version)
            store.write_batch_layer(rows([("north", number, -version) for number in batch_hours]), version)
        with reading(address, is_whole) as readers:
            for step in range(SWITCHES):
                version = 1 + step % 2
                store.switch(version, moments[version][step % len(moments[version])])
                if step % 10 == 0:
                    wait_for_reads(readers)


def test_no_reader_is_disturbed_by_versions_that_come_and_go(address: str) -> None:
    with board(address) as store:
        store.write(rows([("north", number, 1) for number in range(HOURS)]), "query 1", 0, 1)
        with reading(address, is_whole) as readers:
            for version in range(2, 12):
                store.prepare(SCHEMA, layout(version))
                batch = rows([("north", number, version) for number in range(HOURS)])
                store.write(batch, f"query {version}", 0, version)
                store.write_batch_layer(rows([("north", number, -version) for number in range(HOURS)]), version)
                store.switch(version, hour(version))
                store.drop_version(version - 1)
                wait_for_reads(readers)


def test_no_reader_sees_half_a_batch(address: str) -> None:
    with board(address) as store:
        store.write(rows([("north", number, 1) for number in range(HOURS)]), "query", 0, 1)
        with reading(address, is_whole) as readers:
            for batch_id in range(1, SWITCHES):
                store.write(rows([("north", number, batch_id) for number in range(HOURS)]), "query", batch_id, 1)
            wait_for_reads(readers)


def test_a_plain_query_of_the_view_reads_only_the_version_that_is_shown(postgresql_address: str) -> None:
    with board(postgresql_address, 1, 2) as store:
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        store.switch(2, datetime(2026, 1, 1, tzinfo=UTC))
    with psycopg.connect(postgresql_address) as connection:
        plan = connection.execute("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) SELECT * FROM board").fetchall()
    lines = "\n".join(line for (line,) in plan)
    assert "board__speed_1" in lines
    assert all(
        "never executed" in line for line in lines.splitlines() if "board__speed_1" in line or "board__batch_1" in line
    )
