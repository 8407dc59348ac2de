"""Values of Arrow columns as text and back: the form in which stores without a type of their own keep them.

Text sorts as the values do where a store compares it: timestamps are in UTC and have a fixed width. Nested values become JSON.
Equivalent types, such as strings with long offsets, are unified, so that they do not count as a change.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow
from pyarrow import compute, types

from catchment.pipelines.stores.store_errors import StoreRefused

MOMENT: Final = pyarrow.timestamp("us", tz="UTC")
_WIDENED: Final[dict[pyarrow.DataType, pyarrow.DataType]] = {
    pyarrow.uint8(): pyarrow.int16(),
    pyarrow.uint16(): pyarrow.int32(),
    pyarrow.uint32(): pyarrow.int64(),
    pyarrow.float16(): pyarrow.float32(),
    pyarrow.date64(): pyarrow.date32(),
}
_KEPT: Final[tuple[Callable[[pyarrow.DataType], bool], ...]] = (
    types.is_boolean,
    types.is_signed_integer,
    types.is_float32,
    types.is_float64,
    types.is_decimal,
    types.is_date32,
)
_STRINGS: Final = (types.is_string, types.is_large_string, types.is_string_view)
_BYTES: Final = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
_LISTS: Final = (types.is_list, types.is_large_list, types.is_fixed_size_list)
# Arrow writes decimals with more digits than these after the point as 1E-7, which reads badly and sorts worse.
_PLAIN_SCALE: Final = 6


def normal_type(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """The one type that stands for all equivalent ones; None for a type that stores cannot hold."""
    if types.is_dictionary(kind):
        return normal_type(kind.value_type)
    if any(is_kind(kind) for is_kind in _STRINGS):
        return pyarrow.string()
    if any(is_kind(kind) for is_kind in _BYTES):
        return pyarrow.binary()
    if types.is_timestamp(kind):
        return MOMENT if kind.tz else pyarrow.timestamp("us")
    if any(is_kind(kind) for is_kind in _KEPT):
        return kind
    return _normal_nested(kind) if types.is_nested(kind) else _WIDENED.get(kind)


def _normal_nested(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    if types.is_struct(kind):
        fields = [(field.name, normal_type(field.type)) for field in kind]
        return pyarrow.struct(fields) if all(inner for _, inner in fields) else None
    if types.is_map(kind):
        key, item = normal_type(kind.key_type), normal_type(kind.item_type)
        return pyarrow.map_(key, item) if key and item else None
    inner = normal_type(kind.value_type) if any(is_kind(kind) for is_kind in _LISTS) else None
    return pyarrow.list_(inner) if inner else None


def to_text(column: pyarrow.ChunkedArray, *, of_bytes: Callable[[bytes], str] = bytes.hex) -> pyarrow.Array:
    """The values of a column of a normal type as text."""
    kind = column.type
    if types.is_nested(kind):
        return _texts(column, lambda value: json.dumps(_plain(value, kind), ensure_ascii=False))
    if types.is_binary(kind):
        return _texts(column, of_bytes)
    if types.is_decimal(kind) and kind.scale > _PLAIN_SCALE:
        return _texts(column, lambda value: f"{value:f}")
    return compute.cast(column, pyarrow.string())


def from_text(texts: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """The values that `to_text` has written, as a column of their type."""
    if types.is_nested(kind):
        return _values(texts, lambda text: _rich(json.loads(text), kind), kind)
    if types.is_binary(kind):
        return _values(texts, bytes.fromhex, kind)
    return compute.cast(texts, kind)


def moment_text(moment: datetime) -> str:
    """A moment in the form of `to_text`."""
    if moment.tzinfo is None:
        raise StoreRefused(
            f"{moment} has no time zone", "Give the moment with its zone, such as datetime(…, tzinfo=UTC)."
        )
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%fZ").rjust(len("2000-01-01 00:00:00.000000Z"), "0")


def moment_from(value: datetime | str | None) -> datetime | None:
    """The timestamp of a store's value that `moment_text` has written."""
    return datetime.fromisoformat(value).astimezone(UTC) if isinstance(value, str) else value


def _texts(column: pyarrow.ChunkedArray, text: Callable[[Any], str]) -> pyarrow.Array:
    values: Iterable[Any] = column.to_pylist()
    return pyarrow.array([None if value is None else text(value) for value in values], pyarrow.string())


def _values(texts: pyarrow.Array, value: Callable[[str], object], kind: pyarrow.DataType) -> pyarrow.Array:
    return pyarrow.array([None if text is None else value(text) for text in texts.to_pylist()], kind)


def _plain(value: Any, kind: pyarrow.DataType) -> object:
    """A value as JSON can hold it."""
    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        pairs = [(_plain(key, kind.key_type), _plain(item, kind.item_type)) for key, item in value]
        return dict(pairs) if types.is_string(kind.key_type) else [list(pair) for pair in pairs]
    if types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, date) else value


def _rich(value: Any, kind: pyarrow.DataType) -> object:
    """The value that `_plain` was made from."""
    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: _rich(value.get(field.name), field.type) for field in kind}
    if types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(_rich(key, kind.key_type), _rich(item, kind.item_type)) for key, item in pairs]
    if types.is_list(kind):
        return [_rich(item, kind.value_type) for item in value]
    return _rich_scalar(value, kind)


def _rich_scalar(value: Any, kind: pyarrow.DataType) -> object:
    if types.is_binary(kind):
        return base64.b64decode(value)
    if types.is_floating(kind):
        return float(value)
    if types.is_decimal(kind):
        return Decimal(value)
    if types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    return date.fromisoformat(value) if types.is_date(kind) else value
