"""The stores of an application, read back at little cost: how many rows they hold by now."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import compute

from catchment.applications.running.layout import StoreTable


class LakeCount:
    """The rows of a Delta table, by what its log says of its files: the data is not read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table: DeltaTable | None = None

    def rows(self) -> int | None:
        """None before the first commit."""
        try:
            if self._table is None:
                self._table = DeltaTable(self._path)
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            return None
        counts = pyarrow.table(self._table.get_add_actions(flatten=True)).column("num_records")
        return int(compute.sum(counts).as_py() or 0)


def store_rows(store: StoreTable) -> int | None:
    """The rows of a table of the real-time store; None before it is there."""
    if not store.file.exists():
        return None
    with closing(sqlite3.connect(f"file:{store.file}?mode=ro", uri=True)) as connection:
        try:
            (count,) = connection.execute(f'SELECT count(*) FROM "{store.table}"').fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error) or "locked" in str(error):
                return None
            raise
    return int(count)
