"""A table that is there may be given nullable columns; every other change is refused, by the column's name."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pyarrow
import pytest
from tests.pipelines.stores.boards import KEY, SCHEMA, board, cells, hour, layout, rows

from catchment.pipelines.stores.store import Layout
from catchment.pipelines.stores.store_errors import StoreRefused
from catchment.pipelines.stores.store_opening import open_store

CREW = pyarrow.field("crew", pyarrow.int32())
WITH_CREW = SCHEMA.append(CREW)


def crew_row(number: int, crew: int | None) -> pyarrow.Table:
    return pyarrow.Table.from_pylist(
        [{"district": "north", "start": hour(number), "end": hour(number + 1), "count": 1, "crew": crew}],
        schema=WITH_CREW,
    )


def test_a_nullable_column_may_be_added_and_older_rows_are_null_in_it(address: str) -> None:
    with board(address) as store:
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        store.write_batch_layer(rows([("north", 1, 1)]), 1)
        # Where the new column stands among the others does not matter.
        store.prepare(pyarrow.schema([CREW, *SCHEMA]), layout())
        store.write(crew_row(2, 7), "query", 1, 1)
        assert store.read().sort_by("start").column("crew").to_pylist() == [None, 7]
    with open_store(address, "board") as again:
        again.prepare(WITH_CREW, layout())
        again.switch(1, hour(2))
        assert again.read().sort_by("start").column("crew").to_pylist() == [None, 7]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (SCHEMA.append(pyarrow.field("crew", pyarrow.int32(), nullable=False)), "'crew' is new"),
        (SCHEMA.remove(3), "'count' is gone"),
        (SCHEMA.set(3, pyarrow.field("count", pyarrow.int32())), "'count' is int64, and cannot become int32"),
        (SCHEMA.set(3, pyarrow.field("Count", pyarrow.int64())), "'count' is gone"),
    ],
)
def test_another_change_is_refused_by_the_columns_name(address: str, schema: pyarrow.Schema, words: str) -> None:
    with board(address) as store:
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        with pytest.raises(StoreRefused, match=words):
            store.prepare(schema, layout())
        assert cells(store.read()) == [("north", 1, 1)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (Layout("board", ("district",), 1, None, "end"), "its key is district, start, and cannot become district"),
        (Layout("board", KEY, 1, None, "start"), "windows end at end, and cannot end at start"),
        (Layout("board", KEY, 1), "windows end at end, and cannot end at none"),
    ],
)
def test_another_layout_is_refused(address: str, changed: Layout, words: str) -> None:
    with board(address) as store, pytest.raises(StoreRefused, match=words):
        store.prepare(SCHEMA, changed)


@pytest.mark.parametrize(
    ("wrong", "schema", "words"),
    [
        (Layout("board", ("crew",)), SCHEMA, "no column 'crew'"),
        (Layout("board", KEY, 0), SCHEMA, "version 0"),
        (Layout("board", KEY, 1, 0), SCHEMA, "ttl of 0 ms"),
        (Layout("board", KEY, 1, None, "count"), SCHEMA, "'count' is int64, which cannot say where a window ends"),
        (
            Layout("board"),
            pyarrow.schema([("a", pyarrow.int32()), ("A", pyarrow.int32())]),
            "'a' and 'A' differ in case",
        ),
        (Layout("board"), pyarrow.schema([("x" * 64, pyarrow.int32())]), "cannot be the name of a column"),
        (Layout("board"), pyarrow.schema([("__written", pyarrow.int64())]), "cannot be the name of a column"),
        (Layout("board"), pyarrow.schema([]), "needs a column"),
        (Layout("board", ("x",)), pyarrow.schema([("x", pyarrow.float64())]), "cannot be a part of the key"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(tmp_path: Path, wrong: Layout, schema: pyarrow.Schema, words: str) -> None:
    with open_store(f"sqlite:///{tmp_path}/city.db", "board") as store:
        with pytest.raises(StoreRefused, match=words):
            store.prepare(schema, wrong)
        assert store.versions() == []


def test_types_that_mean_the_same_are_no_change(address: str) -> None:
    berlin = pyarrow.timestamp("ns", tz="Europe/Berlin")
    same = pyarrow.schema(
        [("district", pyarrow.large_string()), ("start", berlin), ("end", berlin), ("count", pyarrow.int64())]
    )
    with board(address) as store:
        store.prepare(same, layout())
        assert store.write(rows([("north", 1, 1)]).cast(same), "query", 0, 1)
        assert cells(store.read()) == [("north", 1, 1)]


def test_a_new_version_may_have_other_columns_but_not_another_type_for_one(address: str) -> None:
    with board(address) as store:
        store.write(rows([("north", 1, 1)]), "query", 0, 1)
        with pytest.raises(StoreRefused, match="'count' is string, but int64 in another version"):
            store.prepare(SCHEMA.set(3, pyarrow.field("count", pyarrow.string())), layout(2))
        store.prepare(WITH_CREW.remove(3), layout(2))
        store.write(crew_row(2, 7).drop_columns(["count"]), "query 2", 0, 2)
        assert store.read().to_pylist()[0]["count"] == 1
        store.switch(2, None)
        assert store.read().select(["crew", "count"]).to_pylist() == [{"crew": 7, "count": None}]
        store.drop_version(1)
        assert store.read().schema.names == ["district", "start", "end", "crew"]
        store.prepare(pyarrow.schema([*WITH_CREW.remove(3), ("count", pyarrow.string())]), layout(3))


@pytest.mark.parametrize("missing", [True, False])
def test_a_batch_with_other_columns_is_refused_by_name(address: str, missing: bool) -> None:
    batch = rows([("north", 1, 1)])
    batch = batch.drop_columns(["count"]) if missing else batch.append_column("crew", pyarrow.array([1]))
    with board(address) as store:
        with pytest.raises(StoreRefused, match="no column 'count'" if missing else "no column 'crew'"):
            store.write(batch, "query", 0, 1)
        assert store.last_batch("query") is None


def test_a_value_that_does_not_fit_is_refused_by_the_columns_name(address: str) -> None:
    schema = pyarrow.schema([("count", pyarrow.int8())])
    with open_store(address, "small") as store:
        store.prepare(schema, Layout("small"))
        with pytest.raises(StoreRefused, match="'count' is int8, and not every value"):
            store.write(pyarrow.table({"count": [1, 1000]}), "query", 0, 1)


def test_names_of_columns_are_taken_literally(address: str) -> None:
    names = ['a"b', "select", "x; DROP TABLE y", "größe %s ?", "new\nline", "'", "end"]
    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
    with open_store(address, "odd") as store:
        store.prepare(schema, Layout("odd", tuple(names[:2]), ttl_ms=1000))
        store.prepare(
            schema.append(pyarrow.field("plus%", pyarrow.string())), Layout("odd", tuple(names[:2]), ttl_ms=1000)
        )
        row = {name: name for name in [*names, "plus%"]}
        store.write(pyarrow.Table.from_pylist([row]), "query", 0, 1)
        assert store.read().to_pylist() == [row]


def test_a_table_of_another_program_is_left_alone(sql_address: str) -> None:
    statement = "CREATE TABLE board (precious TEXT)"
    if sql_address.startswith("sqlite"):
        path = Path(sql_address.removeprefix("sqlite:///"))
        path.parent.mkdir(parents=True)
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.close()
    else:
        with psycopg.connect(sql_address) as other:
            other.execute(statement.encode())
    with pytest.raises(StoreRefused, match="there is a table or view board already"):
        board(sql_address)


def test_many_can_prepare_the_same_table_at_once(address: str) -> None:
    def prepare(version: int) -> None:
        with board(address, 1, version):
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(prepare, [2, 3, 2, 3, 4, 4, 2, 3]))
    with open_store(address, "board") as store:
        assert [version.version for version in store.versions()] == [1, 2, 3, 4]
        assert [version.version for version in store.versions() if version.is_live] == [1]
