"""What the board reads of a store is what the store has, whatever its columns are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from catchment.applications.running.board_table import BoardTable, Cell, StoreTable, TableReader, TableView

_WINDOWS = BoardTable("calls by district", "district", "calls", "start", ("crew",), ("calls", "DESC"))
_CREATE = "CREATE TABLE board (district TEXT, start TEXT, calls INTEGER, crew INTEGER)"


def table(tmp_path: Path, *statements: str, condition: str | None = None, shown: BoardTable = _WINDOWS) -> TableView:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    found = TableReader(StoreTable(file, "board", condition), shown).read()
    assert found is not None
    return found


def moment(second: int) -> str:
    return f"2026-05-01 12:00:{second:02d}.000000Z"


def local(second: int) -> str:
    return datetime(2026, 5, 1, 12, 0, second, tzinfo=UTC).astimezone().strftime("%H:%M:%S")


def row(district: str, second: int, calls: int, crew: int = 2) -> str:
    return f"INSERT INTO board VALUES ('{district}', '{moment(second)}', {calls}, {crew})"


def test_windows_are_columns_and_one_that_is_missing_is_empty(tmp_path: Path) -> None:
    rows = [row("Market", 0, 5), row("Harbour", 10, 61), row("Market", 10, 7, crew=3)]
    found = table(tmp_path, _CREATE, *rows, condition="calls > 40 AND crew < 3")
    assert found.columns == (local(0), local(10))
    assert [one.label for one in found.rows] == ["Harbour", "Market"]
    assert found.rows[0].cells == (Cell(None), Cell(61, is_alert=True))
    assert found.rows[1].cells == (Cell(5), Cell(7))
    assert found.rows[1].beside == ("3",), "of the newest window"
    assert found.count == 3


def test_of_many_labels_those_that_come_first_in_the_order_are_shown(tmp_path: Path) -> None:
    found = table(tmp_path, _CREATE, *(row(f"d{number:03d}", 0, number) for number in range(100)))
    assert [one.label for one in found.rows[:3]] == ["d099", "d098", "d097"]
    assert len(found.rows) == 40


def test_only_the_last_windows_are_read(tmp_path: Path) -> None:
    found = table(tmp_path, _CREATE, *(row("Market", second, second) for second in range(30)))
    assert len(found.columns) == 12
    assert [cell.value for cell in found.rows[0].cells] == list(range(18, 30))


def test_a_condition_that_sqlite_cannot_evaluate_marks_nothing(tmp_path: Path) -> None:
    found = table(tmp_path, _CREATE, row("Market", 0, 99), condition="calls RLIKE 'x' AND array_contains(calls, 3)")
    assert found.rows[0].cells == (Cell(99),)


def test_a_table_without_windows_is_a_list_of_bars(tmp_path: Path) -> None:
    shown = BoardTable("visits", "visitor", "pages", beside=("has_cart", "end"), order=("end", "DESC"))
    found = table(
        tmp_path,
        "CREATE TABLE board (visitor TEXT, pages INTEGER, has_cart BOOLEAN, end TEXT)",
        f"INSERT INTO board VALUES ('a', 3, 1, '{moment(1)}'), ('b', 4, 0, '{moment(2)}'), ('c', NULL, NULL, NULL)",
        condition="has_cart",
        shown=shown,
    )
    assert found.columns == ("pages",)
    assert [one.label for one in found.rows] == ["b", "a", "c"]
    assert [one.beside for one in found.rows] == [("no", local(2)), ("yes", local(1)), ("–", "–")]
    assert [one.cells for one in found.rows] == [(Cell(4),), (Cell(3, is_alert=True),), (Cell(None),)]


def test_a_table_with_other_columns_is_shown_by_what_it_has(tmp_path: Path) -> None:
    found = table(
        tmp_path, "CREATE TABLE board (town TEXT, note TEXT, people INTEGER)", "INSERT INTO board VALUES ('A', 'x', 7)"
    )
    assert (found.title, found.label, found.columns, found.beside) == ("board", "town", ("people",), ("note",))
    assert found.rows[0].cells == (Cell(7),)
    assert found.rows[0].beside == ("x",)


def test_a_store_that_does_not_exist_yet_is_none(tmp_path: Path) -> None:
    assert TableReader(StoreTable(tmp_path / "store.db", "board"), _WINDOWS).read() is None
    sqlite3.connect(tmp_path / "store.db").close()
    assert TableReader(StoreTable(tmp_path / "store.db", "board"), _WINDOWS).read() is None


def test_a_table_without_rows_is_empty(tmp_path: Path) -> None:
    assert table(tmp_path, _CREATE).rows == ()
