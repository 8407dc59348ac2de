"""Batches change every kind of store as the contract says, once each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pyarrow
import pytest
from tests.pipelines.stores.boards import NOON, SCHEMA, board, cells, counts, hour, layout, rows, tombstones

from catchment.client.errors import SettingsError
from catchment.pipelines.stores.store import Layout
from catchment.pipelines.stores.store_errors import StoreRefused
from catchment.pipelines.stores.store_opening import open_store

DAY_MS = 24 * 3_600_000
NOTES = pyarrow.schema([("note", pyarrow.string()), ("mark", pyarrow.int32())])


def test_a_row_replaces_the_one_with_its_key(address: str) -> None:
    with board(address) as store:
        assert store.write(rows([("north", 1, 5), ("south", 1, 7)]), "query", 0, 1)
        assert store.write(rows([("north", 1, 6), ("north", 2, 1)]), "query", 1, 1)
        assert cells(store.read()) == [("north", 1, 6), ("north", 2, 1), ("south", 1, 7)]


def test_of_several_rows_with_one_key_the_last_of_the_batch_wins(address: str) -> None:
    with board(address) as store:
        many = [("north", number % 7, count) for count, number in enumerate(range(5_000))]
        store.write(rows([*many, ("south", 0, 1), ("south", 0, 2)]), "query", 0, 1)
        last = {number: ("north", number, count) for _, number, count in many}
        assert cells(store.read()) == [*sorted(last.values()), ("south", 0, 2)]


def test_a_value_that_becomes_null_is_null(address: str) -> None:
    with board(address) as store:
        store.write(rows([("north", 1, 5)]), "query", 0, 1)
        store.write(rows([("north", 1, None)]), "query", 1, 1)
        assert cells(store.read()) == [("north", 1, None)]


def test_a_tombstone_deletes_and_the_last_of_row_and_tombstone_wins(address: str) -> None:
    with board(address) as store:
        store.write(rows([("north", 1, 5), ("north", 2, 6), ("south", 1, 7)]), "query", 0, 1)
        store.write(tombstones([("north", 1), ("west", 9)]), "query", 1, 1)
        assert cells(store.read()) == [("north", 2, 6), ("south", 1, 7)]
        back = rows([("north", 2, 8)]).append_column("__deleted", pyarrow.array([None], pyarrow.bool_()))
        gone = tombstones([("south", 1), ("north", 2)])
        again = rows([("south", 1, 9)]).append_column("__deleted", pyarrow.array([False]))
        store.write(pyarrow.concat_tables([back, gone, again]), "query", 2, 1)
        assert cells(store.read()) == [("south", 1, 9)]


def test_a_batch_counts_once_and_an_older_one_not_again(address: str) -> None:
    with board(address) as store:
        assert store.last_batch("query") is None
        assert store.write(rows([("north", 1, 5)]), "query", 7, 1)
        assert not store.write(rows([("north", 1, 6)]), "query", 7, 1)
        assert not store.write(rows([("north", 1, 6)]), "query", 3, 1)
        assert cells(store.read()) == [("north", 1, 5)]
        assert store.last_batch("query") == 7
    with board(address) as again:
        assert not again.write(rows([("north", 1, 6)]), "query", 7, 1)
        assert again.write(rows([("north", 1, 6)]), "another query", 7, 1)
        assert again.last_batch("query") == 7


def test_of_several_writers_who_bring_the_same_batch_one_succeeds(address: str) -> None:
    batches = 15
    with open_store(address, "notes") as store:
        store.prepare(NOTES, Layout("notes"))

    def write_all(writer: int) -> list[bool]:
        with open_store(address, "notes") as store:
            return [
                store.write(pyarrow.table({"note": [f"{number}"], "mark": [writer]}, schema=NOTES), "query", number, 1)
                for number in range(batches)
            ]

    with ThreadPoolExecutor(3) as pool:
        successes = zip(*pool.map(write_all, range(3)), strict=True)
    assert [sum(batch) for batch in successes] == [1] * batches
    with open_store(address, "notes") as store:
        assert sorted(store.read().column("note").to_pylist()) == sorted(f"{number}" for number in range(batches))


def test_an_empty_batch_counts_too(address: str) -> None:
    with board(address) as store:
        assert store.write(rows([]), "query", 0, 1)
        assert not store.write(rows([("north", 1, 6)]), "query", 0, 1)
        assert store.read().num_rows == 0
        assert store.read().schema.names == SCHEMA.names


def test_without_a_key_rows_are_added_once_for_each_batch(address: str) -> None:
    with open_store(address, "notes") as store:
        store.prepare(NOTES, Layout("notes"))
        same = pyarrow.table({"note": ["a", "a", None], "mark": [1, 1, None]}, schema=NOTES)
        assert store.write(same, "query: 1", 0, 1)
        assert not store.write(same, "query: 1", 0, 1)
        assert store.write(same, "query: 1", 1, 1)
        assert sorted(store.read().column("note").to_pylist(), key=str) == [None, None, "a", "a", "a", "a"]
        tombs = same.append_column("__deleted", pyarrow.array([True, False, False]))
        with pytest.raises(StoreRefused, match="no key"):
            store.write(tombs, "query: 1", 2, 1)


def test_tables_of_one_store_know_nothing_of_each_other(address: str) -> None:
    with board(address) as store, open_store(address, "notes") as notes:
        notes.prepare(NOTES, Layout("notes", ("note",)))
        assert store.write(rows([("north", 1, 5)]), "query", 0, 1)
        assert notes.write(pyarrow.table({"note": ["a"], "mark": [1]}, schema=NOTES), "query", 0, 1)
        assert store.read().num_rows == notes.read().num_rows == 1


def test_a_table_may_be_nothing_but_its_key(address: str) -> None:
    with open_store(address, "seen") as store:
        store.prepare(NOTES, Layout("seen", ("note", "mark")))
        seen = pyarrow.table({"note": ["a:b", "a", "a"], "mark": [1, 1, 1]}, schema=NOTES)
        store.write(seen, "query", 0, 1)
        store.write(seen.slice(0, 1), "query", 1, 1)
        assert sorted(store.read().column("note").to_pylist()) == ["a", "a:b"]


def test_windows_expire_by_their_end(address: str) -> None:
    with open_store(address, "board", DAY_MS) as store:
        store.prepare(SCHEMA, layout(1))
        store.prepare(SCHEMA, layout(2, ttl_ms=2 * DAY_MS))
        store.write(rows([("north", number, number) for number in range(10)]), "query", 0, 1)
        store.write_batch_layer(rows([("north", number, -number) for number in range(4)]), 1)
        store.write(rows([("north", number, number) for number in range(10)]), "query 2", 0, 2)
        assert store.expire(hour(5) + timedelta(days=1)) == 5 + 4
        assert counts(store.read()) == [5, 6, 7, 8, 9]
        assert store.expire(hour(5) + timedelta(days=1)) == 0
        store.switch(2, None)
        assert len(counts(store.read())) == 10


def test_rows_without_windows_expire_by_when_they_were_last_written(address: str) -> None:
    now = [NOON]
    with open_store(address, "notes", DAY_MS, clock=lambda: now[0]) as store:
        store.prepare(NOTES, Layout("notes", ("note",)))
        store.write(pyarrow.table({"note": ["a", "b"], "mark": [1, 1]}, schema=NOTES), "query", 0, 1)
        now[0] += timedelta(hours=12)
        store.write(pyarrow.table({"note": ["b"], "mark": [2]}, schema=NOTES), "query", 1, 1)
        assert store.expire(NOON + timedelta(hours=23)) == 0
        assert store.expire(NOON + timedelta(hours=24)) == 1
        assert store.read().column("note").to_pylist() == ["b"]


def test_without_a_ttl_nothing_expires(address: str) -> None:
    with board(address) as store:
        store.write(rows([("north", 1, 5)]), "query", 0, 1)
        assert store.expire(hour(10**6)) == 0
        assert store.read().num_rows == 1


@pytest.mark.parametrize("column", ["district", "start", "end"])
def test_a_row_that_could_not_be_found_again_is_refused_and_with_it_its_batch(address: str, column: str) -> None:
    with board(address) as store:
        broken = rows([("north", 1, 5), ("south", 1, 5)]).to_pylist()
        broken[1][column] = None
        with pytest.raises(StoreRefused, match=f"'{column}' is NULL"):
            store.write(pyarrow.Table.from_pylist(broken, schema=SCHEMA), "query", 0, 1)
        assert store.read().num_rows == 0
        assert store.write(rows([("north", 1, 5)]), "query", 0, 1)


def test_a_batch_for_a_version_that_is_not_there_is_refused(address: str) -> None:
    with board(address) as store:
        with pytest.raises(StoreRefused, match="version 2, is not in the store"):
            store.write(rows([("north", 1, 5)]), "query", 0, 2)
        assert store.last_batch("query") is None


def test_nothing_can_be_read_from_a_table_that_is_not_there(address: str) -> None:
    with open_store(address, "board") as store:
        assert store.versions() == []
        assert store.last_batch("query") is None
        assert store.expire(NOON) == 0
        with pytest.raises(StoreRefused, match="table board is not in the store"):
            store.read()


@pytest.mark.parametrize(
    "name", ["", "1st", "a-b", "a;b", 'a"b', "x" * 41, "sqlite_x", "catchment_views", "pg_x", "tafel\0"]
)
def test_names_that_not_every_store_can_have_are_refused(name: str) -> None:
    with pytest.raises(StoreRefused, match="cannot be the name of a table"):
        open_store("sqlite:///city.db", name)


@pytest.mark.parametrize("address", ["mysql://user:secret@host/city", "city.db", "sqlite:///", "sqlite://city.db"])
def test_an_unknown_address_is_refused_without_repeating_a_password(address: str) -> None:
    with pytest.raises(SettingsError, match="no store is known") as refusal:
        open_store(address, "board")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:secret@[host/city",
        "postgresql://user:secret@host/city?x=1",
        "redis://user:secret@host:port/0",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_repeating_a_password(address: str) -> None:
    with pytest.raises(StoreRefused, match="cannot be read") as refusal:
        open_store(address, "board")
    assert "secret" not in str(refusal.value)


def test_the_store_is_opened_for_one_table(address: str) -> None:
    with open_store(address, "board") as store, pytest.raises(StoreRefused, match="not for notes"):
        store.prepare(NOTES, Layout("notes", ()))
