"""Rows that a table can never take, however often they are tried: told row by row, by nothing but what is in them.

What may pass is no reason: a store that is away, full or busy takes the row later. Nor is what is wrong with a whole column, which is
refused as such.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow
from pyarrow import compute

from catchment.pipelines.stores.definition import Definition
from catchment.pipelines.stores.rows import conform, deleted, outside_calendar


def reasons_against(rows: pyarrow.Table, definition: Definition) -> pyarrow.ChunkedArray:
    """Of each row, why no store can keep it in this table, naming the column; null of a row that all can."""
    found = pyarrow.chunked_array([pyarrow.nulls(rows.num_rows, pyarrow.string())])
    for is_wrong, reason in _reasons(rows, definition):
        found = with_reason(found, is_wrong, reason)
    return found


def with_reason(reasons: pyarrow.ChunkedArray, is_wrong: pyarrow.ChunkedArray, reason: str) -> pyarrow.ChunkedArray:
    """The reasons with another one, for rows that have none yet."""
    is_new = compute.and_(compute.is_null(reasons), is_wrong)
    return compute.if_else(is_new, pyarrow.scalar(reason), reasons)


def _reasons(rows: pyarrow.Table, definition: Definition) -> Iterator[tuple[pyarrow.ChunkedArray, str]]:
    layout = definition.layout
    table = conform(rows, definition)
    for name in layout.key:
        if table.column(name).null_count:
            yield compute.is_null(table.column(name)), f"column {name!r} is NULL, and the table finds its rows by it"
    end = layout.window_end
    if end is not None and table.column(end).null_count:
        # A tombstone needs no more than the key.
        is_endless = compute.and_not(compute.is_null(table.column(end)), deleted(rows, definition))
        yield is_endless, f"column {end!r} is NULL, and the table knows by it where a window ends"
    for name in table.column_names:
        is_outside = outside_calendar(table.column(name))
        if is_outside is not None:
            yield is_outside, f"column {name!r} holds a moment outside the years 1 to 9999"
