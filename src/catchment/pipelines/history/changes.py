"""A recomputed history beside the one that is shown: how they differ, and which rows of the old one are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow
from pyarrow import compute

from catchment.client.errors import SettingsError
from catchment.pipelines.stores.definition import Layout


@dataclass(frozen=True)
class Changes:
    """How a recomputed history differs from the one that is shown."""

    same: int
    changed: int
    added: int
    removed: int


def changes_between(
    shown: pyarrow.Table, before: Layout, rows: pyarrow.Table, layout: Layout, until: datetime
) -> Changes:
    """What a reader will find different. Rows that nothing identifies, or something else than before, are all of them others."""
    if before.window_end is not None:
        shown = shown.filter(_ends_by(shown, before.window_end, until))
    if not layout.key or layout.key != before.key:
        return Changes(0, 0, added=rows.num_rows, removed=shown.num_rows)
    names = [name for name in rows.column_names if name in shown.column_names]
    old, new = _by_key(shown, layout.key, names), _by_key(rows, layout.key, names)
    both = old.keys() & new.keys()
    same = sum(old[one] == new[one] for one in both)
    return Changes(same, len(both) - same, len(new.keys() - old.keys()), len(old.keys() - new.keys()))


def taken_over(
    rows: pyarrow.Table, layout: Layout, shown: pyarrow.Table, before: Layout, since: datetime
) -> pyarrow.Table:
    """Recomputed rows of windows after a moment, and the ones that are shown of windows before; new columns are null there."""
    assert layout.window_end is not None, "a history without windows was refused before"
    if before.window_end is None:
        raise SettingsError(
            f"the version of table {layout.table} that is shown has no windows", "Recompute all of it, without --from."
        )
    if layout.window_end not in shown.column_names:
        shown = shown.append_column(layout.window_end, shown.column(before.window_end))
    for name in layout.key:
        if name not in shown.column_names:
            raise SettingsError(
                f"the version of table {layout.table} that is shown has no column {name}, which is part of the key now",
                "Recompute all of it, without --from.",
            )
    older = shown.filter(_ends_by(shown, before.window_end, since))
    newer = rows.filter(compute.invert(_ends_by(rows, layout.window_end, since)))
    columns = [_taken(older, field, layout.table) for field in rows.schema]
    return pyarrow.concat_tables([pyarrow.table(columns, schema=rows.schema), newer])


def _ends_by(rows: pyarrow.Table, window_end: str, moment: datetime) -> pyarrow.ChunkedArray:
    """Which windows end at or before a moment; those without an end do not."""
    ends = rows.column(window_end)
    return compute.fill_null(compute.less_equal(ends, pyarrow.scalar(moment, ends.type)), False)


def _by_key(
    rows: pyarrow.Table, key: tuple[str, ...], names: list[str]
) -> dict[tuple[object, ...], tuple[object, ...]]:
    return {tuple(row[name] for name in key): tuple(row[name] for name in names) for row in rows.to_pylist()}


def _taken(older: pyarrow.Table, field: pyarrow.Field, table: str) -> pyarrow.ChunkedArray | pyarrow.Array:
    if field.name not in older.column_names:
        return pyarrow.nulls(older.num_rows, field.type)
    column = older.column(field.name)
    try:
        return column.cast(field.type)
    except pyarrow.ArrowException as error:
        raise SettingsError(
            f"column {field.name} is {column.type} in the version of table {table} that is shown, and {field.type} now",
            "Recompute all of it, without --from.",
        ) from error
