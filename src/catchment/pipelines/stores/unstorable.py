"""Rows that a table can never take, however often they are tried: told row by row, by nothing but what is in them.

What may pass is no reason: a store that is away, full or busy takes the row later. Nor is what is wrong with a whole column, which is
refused as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy
import pyarrow
from pyarrow import compute, types

from catchment.pipelines.stores.definition import Definition
from catchment.pipelines.stores.rows import conform, deleted, outside_calendar

Judge = Callable[[pyarrow.Table], pyarrow.ChunkedArray]
_SHOWN_BYTES: Final = 100


def judged(rows: pyarrow.Table, judge: Judge) -> pyarrow.ChunkedArray:
    """The reasons against rows whose text is no UTF-8, and of all others what the judge says, who need not expect such text."""
    reasons = pyarrow.array([None] * rows.num_rows, pyarrow.string())
    for name in rows.column_names:
        column = rows.column(name).combine_chunks()
        if positions := _invalid(column):
            is_wrong = numpy.zeros(rows.num_rows, dtype=bool)
            is_wrong[positions] = True
            told = pyarrow.array(
                [f"column {name!r} holds text that is not UTF-8{_shown(column, one)}" for one in positions]
            )
            reasons = compute.coalesce(
                reasons, compute.replace_with_mask(pyarrow.nulls(len(column), pyarrow.string()), is_wrong, told)
            )
    is_sound = compute.is_null(reasons)
    if reasons.null_count == len(reasons):
        return judge(rows)
    others = judge(rows.filter(is_sound)).combine_chunks()
    return pyarrow.chunked_array([compute.replace_with_mask(reasons, is_sound, others)])


def _invalid(column: pyarrow.Array, first: int = 0) -> list[int]:
    """Where the values are that Arrow would not take from others. Few are expected, so halves are tried."""
    try:
        column.validate(full=True)
    except pyarrow.ArrowInvalid:
        if len(column) == 1:
            return [first]
        middle = len(column) // 2
        # A slice of lists would be judged by the elements of all of them.
        halves = [column.take(numpy.arange(*bounds)) for bounds in ((0, middle), (middle, len(column)))]
        return [*_invalid(halves[0], first), *_invalid(halves[1], first + middle)]
    return []


def _shown(column: pyarrow.Array, position: int) -> str:
    """The bytes, which a record in the quarantine has no other place for."""
    if not types.is_string(column.type):
        return ""
    value: bytes = column.slice(position, 1).view(pyarrow.binary())[0].as_py()
    return f": {value[:_SHOWN_BYTES].hex()}{'…' if len(value) > _SHOWN_BYTES else ''}"


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
