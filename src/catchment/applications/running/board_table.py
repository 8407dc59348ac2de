"""A table of the real-time store as the board shows it: what to show is declared by an application, and read from SQLite as it is.

A user may have changed the pipeline of an application. Where the store has other columns than those that were declared, the board
shows what it finds: the first column as the label, and the first column of numbers as bars.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

_MOST_WINDOWS: Final = 12
_MOST_ROWS: Final = 40
_FEW_ROWS: Final = 12
"""Up to so many rows keep the order of their labels, so that none jumps as it changes."""
_NUMBERS: Final = ("INTEGER", "REAL", "BIGINT")


class StoreTable(NamedTuple):
    """A table of an SQLite store."""

    file: Path
    table: str
    alert_condition: str | None = None
    """The condition of the first alert on the same stage, in SQL."""


@dataclass(frozen=True)
class BoardTable:
    """How the board shows a table, by the names of its columns."""

    title: str
    label: str
    measure: str
    """Drawn as bars."""
    window: str | None = None
    """Where it is given, the board has one column of bars for each of the last windows."""
    beside: tuple[str, ...] = ()
    """Columns of the newest row of each label, as text."""
    order: tuple[str, Literal["ASC", "DESC"]] | None = None
    """Which rows come first where there are more than the board has room for; of windows, their sum counts."""

    @property
    def columns(self) -> set[str]:
        ordered = {self.order[0]} if self.order else set()
        return {self.label, self.measure, *self.beside} | ({self.window} if self.window else set()) | ordered


class Cell(NamedTuple):
    """A measure, and whether it satisfies the condition of the alert."""

    value: int | float | None = None
    is_alert: bool = False


class TableRow(NamedTuple):
    label: str
    cells: tuple[Cell, ...]
    beside: tuple[str, ...]


@dataclass(frozen=True)
class TableView:
    """A table at one moment."""

    title: str
    label: str
    columns: tuple[str, ...]
    """The starts of the windows, the newest last; without windows, the name of the measure."""
    beside: tuple[str, ...]
    rows: tuple[TableRow, ...]
    count: int
    """How many rows the store has."""


class TableReader:
    """Reads one table again and again."""

    def __init__(self, store: StoreTable, shown: BoardTable) -> None:
        self._store = store
        self._declared = shown

    def read(self) -> TableView | None:
        """The table as it is now; None before it exists. Raises `sqlite3.Error`."""
        if not self._store.file.exists():
            return None
        with closing(sqlite3.connect(f"file:{self._store.file}?mode=ro", uri=True, isolation_level=None)) as connection:
            types = {name: kind for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({self._table})")}
            if not types:
                return None
            shown = self._declared if self._declared.columns <= types.keys() else inferred(self._store.table, types)
            # One transaction: the rows belong to the windows that were found.
            connection.execute("BEGIN")
            (count,) = connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()
            columns, rows = self._windows(connection, shown) if shown.window else self._list(connection, shown)
            booleans = [types[name] == "BOOLEAN" for name in shown.beside]
            return TableView(
                shown.title,
                shown.label,
                columns,
                shown.beside,
                tuple(TableRow(label, cells, tuple(map(as_text, beside, booleans))) for label, cells, beside in rows),
                count,
            )

    @property
    def _table(self) -> str:
        return quoted(self._store.table)

    def _windows(self, connection: sqlite3.Connection, shown: BoardTable) -> tuple[tuple[str, ...], list[_Row]]:
        assert shown.window is not None
        window, label = quoted(shown.window), quoted(shown.label)
        newest = f"SELECT DISTINCT {window} FROM {self._table} ORDER BY 1 DESC LIMIT {_MOST_WINDOWS}"
        starts = sorted(start for (start,) in connection.execute(newest))
        if not starts:
            return (), []
        order = f"sum({quoted(shown.order[0])}) {shown.order[1]}, " if shown.order else ""
        ordered = (
            f"SELECT {label} FROM {self._table} WHERE {window} >= ? GROUP BY 1 ORDER BY {order} 1 LIMIT {_MOST_ROWS}"
        )
        labels = [found for (found,) in connection.execute(ordered, (starts[0],))]
        condition = f"{window} >= ? AND {label} IN ({', '.join('?' * len(labels))})"
        found: dict[Any, dict[str, Any]] = {one: {} for one in labels}
        for one, start, *values in self._select(connection, shown, window, condition, (starts[0], *labels)):
            found[one][start] = values
        rows = []
        for one in sorted(labels, key=str) if len(labels) <= _FEW_ROWS else labels:
            cells = tuple(_cell(found[one].get(start, (None, 0))) for start in starts)
            rows.append((str(one), cells, found[one][max(found[one])][2:]))
        return tuple(as_text(start) for start in starts), rows

    def _list(self, connection: sqlite3.Connection, shown: BoardTable) -> tuple[tuple[str, ...], list[_Row]]:
        column, direction = shown.order or (shown.label, "ASC")
        condition = f"1 ORDER BY {quoted(column)} {direction} LIMIT {_MOST_ROWS}"
        rows = self._select(connection, shown, "NULL", condition, ())
        return (shown.measure,), [(str(label), (_cell(values),), values[2:]) for label, _, *values in rows]

    def _select(
        self, connection: sqlite3.Connection, shown: BoardTable, window: str, condition: str, values: tuple[Any, ...]
    ) -> list[tuple[Any, ...]]:
        """Label, window, measure, whether the alert's condition holds, and what stands beside."""
        beside = "".join(f", {quoted(name)}" for name in shown.beside)
        chosen = f"{quoted(shown.label)}, {window}, {quoted(shown.measure)}"
        source = f"{beside} FROM {self._table} WHERE {condition}"
        # The condition is Spark's SQL, most of which SQLite has too. Where it has not, no cell is marked.
        with suppress(sqlite3.OperationalError):
            is_alert = f"({self._store.alert_condition or 0})"
            return connection.execute(f"SELECT {chosen}, {is_alert}{source}", values).fetchall()
        return connection.execute(f"SELECT {chosen}, 0{source}", values).fetchall()


_Row = tuple[str, tuple[Cell, ...], list[Any]]


def inferred(title: str, types: dict[str, str]) -> BoardTable:
    """What to show of a table of which only the columns are known."""
    label, *others = types
    numbers = [name for name in others if types[name] in _NUMBERS]
    measure = numbers[0] if numbers else label
    return BoardTable(title, label, measure, beside=tuple(name for name in others if name != measure)[:4])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def as_text(value: object, is_boolean: bool = False) -> str:
    """A value of the store in few characters: a moment is its time of day here."""
    if value is None:
        return "–"
    if is_boolean:
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    text = str(value)
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%H:%M:%S") if ":" in text else text
    except ValueError:
        return text


def _cell(values: Any) -> Cell:
    value, is_alert = values[:2]
    return Cell(value if isinstance(value, int | float) else None, bool(is_alert))
