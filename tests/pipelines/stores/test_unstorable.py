"""Which rows a table can never store, and why: by their content, and by the server where only that knows."""

from __future__ import annotations

import os

import pyarrow
import pyarrow.compute
import pytest
from tests.pipelines.stores.boards import SCHEMA, board, layout, rows, tombstones

from catchment.pipelines.stores.definition import Definition, Layout
from catchment.pipelines.stores.store_errors import StoreAway, StoreRefused
from catchment.pipelines.stores.store_opening import open_store
from catchment.ports.network import free_port

DEFINITION = Definition.of(SCHEMA, layout())
NAMES = pyarrow.schema([("name", pyarrow.string()), ("place", pyarrow.string())])
BY_NAME = Definition.of(NAMES, Layout("names", ("name", "place")))
LONG = "column 'name' makes the key too long: an index of PostgreSQL has room for some 2,700 bytes"


def random_digits(count: int) -> str:
    """Digits that cannot be compressed to less than half."""
    return os.urandom(count // 2).hex()


def test_a_row_without_its_key_or_its_windows_end_is_reported_with_the_column_and_no_other_row_is(address: str) -> None:
    cells = [rows([("north", 1, 5)]).to_pylist()[0] for _ in range(5)]
    cells[1]["district"] = cells[2]["start"] = cells[3]["end"] = None
    table = pyarrow.Table.from_pylist(cells, schema=SCHEMA)
    with board(address) as store:
        reasons = store.unstorable(table, DEFINITION)
        assert reasons.to_pylist() == [
            None,
            "column 'district' is NULL, and the table finds its rows by it",
            "column 'start' is NULL, and the table finds its rows by it",
            "column 'end' is NULL, and the table knows by it where a window ends",
            None,
        ]
        assert store.write(table.filter(reasons.is_null()), "query", 0, 1)
        assert store.unstorable(table.slice(0, 0), DEFINITION).to_pylist() == []


def test_text_that_is_not_utf_8_is_reported_with_its_bytes_and_the_rest_of_the_batch_is_stored(address: str) -> None:
    latin = "Bezirk Süd".encode("latin-1")
    schema = pyarrow.schema([("name", pyarrow.string()), ("tags", pyarrow.list_(pyarrow.string()))])
    names = pyarrow.array([b"north", latin, b"south", None, b"west", b"\xff" * 200], pyarrow.binary()).view(
        pyarrow.string()
    )
    tags = pyarrow.ListArray.from_arrays(
        [0, 1, 2, 3, 4, 5, 6],
        pyarrow.array([b"a", b"b", b"\xff", b"d", b"e", b"f"], pyarrow.binary()).view(pyarrow.string()),
    )
    table = pyarrow.concat_tables(pyarrow.table([names, tags], schema=schema).slice(*part) for part in ((0, 2), (2, 4)))
    places = Layout("places", ("name",))
    with open_store(address, "places") as store:
        store.prepare(schema, places)
        reasons = store.unstorable(table, Definition.of(schema, places))
        assert reasons.to_pylist() == [
            None,
            f"column 'name' holds text that is not UTF-8: {latin.hex()}",
            "column 'tags' holds text that is not UTF-8",
            "column 'name' is NULL, and the table finds its rows by it",
            None,
            f"column 'name' holds text that is not UTF-8: {'ff' * 100}…",
        ]
        assert store.write(table.filter(reasons.is_null()), "query", 0, 1)
        assert sorted(store.read().column("name").to_pylist()) == ["north", "west"]


def test_a_tombstone_needs_its_key_alone(sqlite_address: str) -> None:
    table = pyarrow.concat_tables([tombstones([("north", 1)]), tombstones([("south", 1)])]).to_pylist()
    table[1]["district"] = None
    with board(sqlite_address) as store:
        found = store.unstorable(pyarrow.Table.from_pylist(table, schema=tombstones([]).schema), DEFINITION)
    assert found.to_pylist() == [None, "column 'district' is NULL, and the table finds its rows by it"]


@pytest.mark.parametrize(
    "kind", [pyarrow.timestamp("us", tz="UTC"), pyarrow.timestamp("us"), pyarrow.date32()], ids=str
)
def test_a_moment_outside_the_calendar_is_reported_with_its_column(sqlite_address: str, kind: pyarrow.DataType) -> None:
    schema = pyarrow.schema([("at", kind)])
    unit, number = (1, pyarrow.int32()) if pyarrow.types.is_date(kind) else (86_400_000_000, pyarrow.int64())
    first_day, last_day = -719_162, 2_932_896
    days = [0, first_day - 1, first_day, last_day, last_day + 1, None]
    table = pyarrow.table(
        [pyarrow.array([None if day is None else day * unit for day in days], number).cast(kind)], schema=schema
    )
    with open_store(sqlite_address, "moments") as store:
        found = store.unstorable(table, Definition.of(schema, Layout("moments")))
    outside = "column 'at' holds a moment outside the years 1 to 9999"
    assert found.to_pylist() == [None, outside, None, None, outside, None]


def test_columns_that_are_wrong_as_a_whole_are_refused_and_no_row_is_blamed(sqlite_address: str) -> None:
    with board(sqlite_address) as store, pytest.raises(StoreRefused, match="no column 'end'"):
        store.unstorable(rows([("north", 1, 5)]).drop_columns(["end"]), DEFINITION)


def test_postgresql_says_which_keys_are_too_long_for_its_index_however_well_others_compress(
    postgresql_address: str,
) -> None:
    long, drawn_out = random_digits(10_000), "x" * 100_000
    names = ["short", long, drawn_out, *(f"{random_digits(2_000)}" for _ in range(50)), None, "y" + long, "a\0" * 2_500]
    table = pyarrow.table({"name": names, "place": ["here"] * len(names)}, schema=NAMES)
    with open_store(postgresql_address, "names") as store:
        reasons = store.unstorable(table, BY_NAME)
        found = dict(zip(names, reasons.to_pylist(), strict=True))
        assert {name for name, reason in found.items() if reason == LONG} == {long, "y" + long}
        assert [name for name, reason in found.items() if reason not in (None, LONG)] == [None]
        store.prepare(NAMES, BY_NAME.layout)
        assert store.write(table.filter(reasons.is_null()), "query", 0, 1), "the index has room for all of the others"
        with pytest.raises(StoreRefused, match="index row"):
            store.write(table.filter(pyarrow.compute.equal(reasons, LONG)), "query", 1, 1)


def test_a_server_that_is_away_has_judged_no_row(postgresql_address: str) -> None:
    table = pyarrow.table({"name": [random_digits(10_000)], "place": ["here"]}, schema=NAMES)
    away = f"postgresql://postgres@127.0.0.1:{free_port()}/city"
    with open_store(away, "names") as store, pytest.raises(StoreAway):
        store.unstorable(table, BY_NAME)
    with open_store(postgresql_address, "names") as store:
        assert store.unstorable(table, BY_NAME).to_pylist() == [LONG]
        assert store.versions() == [], "nothing is left of the trial"


def test_short_keys_are_not_asked_about() -> None:
    with open_store(f"postgresql://postgres@127.0.0.1:{free_port()}/city", "board") as store:
        assert store.unstorable(rows([("north" * 300, 1, 1)]), DEFINITION).to_pylist() == [None]
