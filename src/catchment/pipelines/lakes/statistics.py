"""Statistics of a file in Delta's log, by which readers skip it: rows, and minimum, maximum and null count of its columns.

They come from the file's own footer. A bound that the log could not give exactly is left out:
then readers open the file, where a wrong bound would hide rows.

Gaps
    No bounds for booleans, binaries, lists and maps, nor for floating point columns: Parquet's bounds ignore NaN, which is
    Spark's greatest number.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow

_COLUMNS: Final = 32
"""Delta's default: statistics are written for every file and read by every reader."""
_LONGEST_TEXT: Final = 128
_UTC: Final = datetime.UTC


def statistics_of(footer: Any, schema: pyarrow.Schema) -> str:
    """Delta's statistics in JSON, from the metadata of a Parquet file with this schema."""
    counted: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    # In the order of the schema, for Parquet's own paths do not tell a dot in a name from one between names.
    leaves = [leaf for field in schema for leaf in _leaves([field.name], field.type)]
    assert len(leaves) == footer.num_columns, "the file was written with this schema"
    for column, (path, kind) in enumerate(leaves[:_COLUMNS]):
        if kind is None:
            continue
        groups = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
        if all(group is not None and group.has_null_count for group in groups):
            _put(counted["nullCount"], path, sum(group.null_count for group in groups))
        # A row group of nulls alone has no bounds, and needs none.
        bounded = [group for group in groups if group is None or group.num_values]
        if bounded and _has_bounds(kind) and all(group is not None and group.has_min_max for group in bounded):
            _put(counted["minValues"], path, _in_json(min(_values(bounded, "min"), default=None), kind))
            _put(counted["maxValues"], path, _in_json(max(_values(bounded, "max"), default=None), kind))
    return json.dumps(counted, separators=(",", ":"), ensure_ascii=False)


def _leaves(
    path: list[str], kind: pyarrow.DataType, *, is_in_rows: bool = True
) -> Iterator[tuple[list[str], pyarrow.DataType | None]]:
    """The columns that Parquet makes of one, and their types; None inside of lists and maps, whose items are not rows."""
    if not pyarrow.types.is_nested(kind):
        yield path, kind if is_in_rows else None
        return
    is_in_rows = is_in_rows and pyarrow.types.is_struct(kind)
    for number in range(kind.num_fields):
        field = kind.field(number)
        yield from _leaves([*path, field.name], field.type, is_in_rows=is_in_rows)


def _has_bounds(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(
        types.is_integer(kind)
        or types.is_string(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_decimal(kind)
    )


def _values(groups: list[Any], bound: str) -> list[Any]:
    """The bounds of all row groups; none if one of them is outside Python's range of years."""
    try:
        return [getattr(group, bound) for group in groups]
    except (ValueError, OverflowError):
        return []


def _in_json(value: Any, kind: pyarrow.DataType) -> object:
    """A bound in the log's format; None for one that the log cannot hold."""
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(_UTC) if value.tzinfo else value
        return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if kind.tz else "")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        # JSON's numbers pass through a double here, and beyond its digits they would be others.
        number = float(value)
        return number if "e" not in repr(number) and decimal.Decimal(repr(number)) == value else None
    return None


def _put(tree: dict[str, Any], path: list[str], value: object) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
