"""The rows of a batch, prepared for a store: of the table's own types, one for each key, tombstones apart.

Values that a store could only keep altered are refused here, with the column's name, before anything is written.

A row that a table can never take, however often it is tried, is unstorable. That depends on nothing but the row's own values: a store that
is away, full or busy takes the row later, and an error of a whole column is raised as such.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Self

import numpy
import pyarrow
from pyarrow import compute, types

from catchment.client.columns.keyed_rows import last_of_each_key
from catchment.pipelines.stores.definition import DELETED, Definition
from catchment.pipelines.stores.store_errors import StoreRefused

_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


@dataclasses.dataclass(frozen=True)
class Batch:
    """What a batch does to a table: rows to put in, and keys whose rows go. No key is in both, or twice in one."""

    upserts: pyarrow.Table
    deleted_keys: pyarrow.Table

    @classmethod
    def of(cls, rows: pyarrow.Table, definition: Definition) -> Self:
        """The last row of each key; without a key, all of them."""
        key = definition.layout.key
        is_deleted = deleted(rows, definition)
        table = conform(rows, definition)
        _check_calendar(table, definition)
        if key:
            last = last_of_each_key(table.select(key))
            table, is_deleted = table.take(last), is_deleted.take(last)
        upserts = table.filter(compute.invert(is_deleted))
        _check_present(
            upserts, [*key, *([definition.layout.window_end] if definition.layout.window_end else [])], definition
        )
        deleted_keys = table.filter(is_deleted).select(key)
        _check_present(deleted_keys, key, definition)
        return cls(upserts, deleted_keys)


def deleted(rows: pyarrow.Table, definition: Definition) -> pyarrow.ChunkedArray:
    """Which rows are tombstones."""
    if DELETED not in rows.column_names:
        return pyarrow.chunked_array([pyarrow.array(numpy.zeros(rows.num_rows, dtype=bool))])
    column = rows.column(DELETED)
    if not types.is_boolean(column.type):
        raise StoreRefused(f"{definition}: column {DELETED} is {column.type}", "Make it true or false.")
    is_deleted = compute.fill_null(column, False)
    if not definition.layout.key and compute.any(is_deleted).as_py():
        raise StoreRefused(f"{definition} has no key, so nothing says which row to delete", "Name its key columns.")
    return is_deleted


def conform(rows: pyarrow.Table, definition: Definition) -> pyarrow.Table:
    """The columns of the table, each of its own type."""
    for name in rows.column_names:
        if name != DELETED and definition.schema.get_field_index(name) < 0:
            raise StoreRefused(f"{definition} has no column {name!r}", "Prepare the table for the new column first.")
    columns = []
    for field in definition.schema:
        if rows.schema.get_field_index(field.name) < 0:
            raise StoreRefused(
                f"{definition}: the batch has no column {field.name!r}", "Return it, as NULL if need be."
            )
        columns.append(_cast(rows.column(field.name), field, definition))
    return pyarrow.table(columns, schema=pyarrow.schema([field.with_nullable(True) for field in definition.schema]))


def _cast(column: pyarrow.ChunkedArray, field: pyarrow.Field, definition: Definition) -> pyarrow.ChunkedArray:
    try:
        cast = compute.cast(column, field.type)
        cast.validate(full=True)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise StoreRefused(
            f"{definition}: column {field.name!r} is {field.type}, and not every value of the batch fits ({error})",
            "Cast it in the stage, or let a check quarantine such rows.",
        ) from error
    return cast


def outside_calendar(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray | None:
    """Which timestamps lie outside the years 1 to 9999, which stores cannot hold; None if the column has no timestamps."""
    is_date = types.is_date(column.type)
    if not is_date and not types.is_timestamp(column.type):
        return None
    limits = [pyarrow.scalar(limit.replace(tzinfo=None), pyarrow.timestamp("us")) for limit in (_EARLIEST, _LATEST)]
    first, last = (limit.cast(pyarrow.date32() if is_date else limit.type) for limit in limits)
    if not is_date and column.type.tz:
        first, last = (limit.cast(pyarrow.int64()).cast(column.type) for limit in (first, last))
    is_outside = compute.or_(compute.less(column, first), compute.greater(column, last))
    return compute.fill_null(is_outside, False)


def _check_calendar(rows: pyarrow.Table, definition: Definition) -> None:
    for name in rows.column_names:
        is_outside = outside_calendar(rows.column(name))
        if is_outside is not None and compute.any(is_outside).as_py():
            raise StoreRefused(
                f"{definition}: column {name!r} holds a moment outside the years 1 to 9999",
                "Let a check quarantine such rows.",
            )


def _check_present(rows: pyarrow.Table, names: Sequence[str], definition: Definition) -> None:
    for name in names:
        if rows.column(name).null_count:
            raise StoreRefused(
                f"{definition}: column {name!r} is NULL in a row, but is needed to find the row again",
                "Filter such rows out, or let a check quarantine them.",
            )


Judge = Callable[[pyarrow.Table], pyarrow.ChunkedArray]
_SHOWN_BYTES: Final = 100


def judged(rows: pyarrow.Table, judge: Judge) -> pyarrow.ChunkedArray:
    """The reasons against rows whose text is not UTF-8, and the judge's reasons for all others: it need not handle such text."""
    reasons = pyarrow.array([None] * rows.num_rows, pyarrow.string())
    for name in rows.column_names:
        column = rows.column(name).combine_chunks()
        if positions := _invalid(column):
            is_wrong = numpy.zeros(rows.num_rows, dtype=bool)
            is_wrong[positions] = True
            messages = pyarrow.array(
                [f"column {name!r} holds text that is not UTF-8{_shown(column, one)}" for one in positions]
            )
            reasons = compute.coalesce(
                reasons, compute.replace_with_mask(pyarrow.nulls(len(column), pyarrow.string()), is_wrong, messages)
            )
    is_sound = compute.is_null(reasons)
    if reasons.null_count == len(reasons):
        return judge(rows)
    others = judge(rows.filter(is_sound)).combine_chunks()
    return pyarrow.chunked_array([compute.replace_with_mask(reasons, is_sound, others)])


def _invalid(column: pyarrow.Array, first: int = 0) -> list[int]:
    """The positions of values that fail Arrow's validation. Few are expected, so halves are tried."""
    try:
        column.validate(full=True)
    except pyarrow.ArrowInvalid:
        if len(column) == 1:
            return [first]
        middle = len(column) // 2
        # Validating a slice of lists would validate the elements of all of them.
        halves = [column.take(numpy.arange(*bounds)) for bounds in ((0, middle), (middle, len(column)))]
        return [*_invalid(halves[0], first), *_invalid(halves[1], first + middle)]
    return []


def _shown(column: pyarrow.Array, position: int) -> str:
    """The bytes of the text, which a record in the quarantine cannot hold otherwise."""
    if not types.is_string(column.type):
        return ""
    value: bytes = column.slice(position, 1).view(pyarrow.binary())[0].as_py()
    return f": {value[:_SHOWN_BYTES].hex()}{'…' if len(value) > _SHOWN_BYTES else ''}"


def reasons_against(rows: pyarrow.Table, definition: Definition) -> pyarrow.ChunkedArray:
    """For each row, why no store can keep it in this table, naming the column; null for a row that all can."""
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
