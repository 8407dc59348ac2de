"""The format `json`. Arrow's own reader parses a whole column at once, several times as fast as Python does row by row.

It reports only that some row is invalid. The rows are then split and retried, and Python's reader, which gives the reasons, reads the last
few around an invalid one. Both readers accept the same records and give the same values, so the result of a record does not depend on its
neighbours.

A type that Arrow cannot read is read as another and converted afterwards, a column at a time: floats as doubles, dates and times
without a zone as text. Python fills maps that are columns row by row, beside the columns that Arrow reads. Maps within other values, and
types that consist of maps alone, are left to Python's reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json
from pyspark.sql import types as spark

from catchment.spark.formats.decoder import Decoded, Undecodable, arrow_type
from catchment.spark.formats.framing import unframe
from catchment.spark.formats.json.values import Convert, Unreadable, converter, parse_json
from catchment.spark.formats.payloads import Payloads

_KNOWN_TO_ARROW: Final = (
    spark.BooleanType,
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
    spark.FloatType,
    spark.DoubleType,
    spark.StringType,
    spark.DateType,
    spark.TimestampNTZType,
    spark.TimestampType,
    spark.DecimalType,
)
_PIECES: Final = 8
"""Into so many are rows split of which some are wrong: fewer would be tried more often, more would leave more of them to Python."""
_SINGLY: Final = 32
"""So few rows Python reads as fast as they are searched for those that are wrong."""


@dataclass(frozen=True)
class JsonDecoder:
    """JSON of one type. Whatever schema wrote it, it is read by the pinned one, so that the ids of frames are not looked up."""

    data_type: spark.DataType
    framed: bool = False

    def decode(self, payloads: Payloads) -> Decoded:
        if not self.framed:
            return self._decode(payloads)
        bodies, _, errors = unframe(payloads)
        decoded = self._decode(bodies)
        return Decoded(decoded.column, {**errors, **decoded.errors})

    def _decode(self, payloads: Payloads) -> Decoded:
        rows = payloads.rows()
        attempt = _attempt(self.data_type)
        return read_by_python(rows, self.data_type) if attempt is None else _in_pieces(rows, self.data_type, attempt)


Attempt = Callable[[list[bytes | None]], Any]
"""Reads rows a column at a time; gives the column, or None if anything is wrong."""


def _in_pieces(rows: list[bytes | None], data_type: spark.DataType, attempt: Attempt) -> Decoded:
    """All rows that can be read in columns, and those around what is wrong singly."""
    columns: list[Any] = []
    errors: dict[int, str] = {}
    waiting = [(0, len(rows))]
    while waiting:
        first, end = waiting.pop()
        column = attempt(rows[first:end])
        if column is not None:
            columns.append(column)
        elif end - first <= _SINGLY:
            decoded = read_by_python(rows[first:end], data_type)
            columns.append(decoded.column)
            errors.update({first + number: reason for number, reason in decoded.errors.items()})
        else:
            step = -(-(end - first) // _PIECES)
            # The last one in is the first one out: pieces are read in the order of their rows.
            waiting += [(start, min(start + step, end)) for start in reversed(range(first, end, step))]
    return Decoded(columns[0] if len(columns) == 1 else pa.concat_arrays(columns), errors)


@cache
def _attempt(data_type: spark.DataType) -> Attempt | None:
    """How rows of a type are read in columns; None if they cannot be."""
    if _is_known_to_arrow(data_type):
        return partial(read_by_arrow, target=arrow_type(data_type))
    if not isinstance(data_type, spark.StructType):
        return None
    maps = [field for field in data_type if isinstance(field.dataType, spark.MapType)]
    others = spark.StructType([field for field in data_type if field not in maps])
    if not others.fields or not _is_known_to_arrow(others):
        return None
    return partial(
        _read_beside_maps,
        others=arrow_type(others),
        maps=[(field.name, converter(field.dataType)) for field in maps],
        target=arrow_type(data_type),
    )


def _read_beside_maps(rows: list[bytes | None], others: Any, maps: list[tuple[str, Convert]], target: Any) -> Any:
    """A column of structs of which some fields are maps; the others Arrow reads."""
    read = read_by_arrow(rows, others)
    if read is None:
        return None
    values: dict[str, list[Any]] = {name: [] for name, _ in maps}

    def add(record: Any, place: str) -> None:
        for name, convert in maps:
            values[name].append(None if record is None else convert(record.get(name), f"{place}.{name}"))

    try:
        for row in rows:
            parse_json(b"null" if row is None else row, add)
    except Undecodable:
        return None
    children = dict(zip([field.name for field in others], read.flatten(), strict=True))
    children |= {name: pa.array(items, target.field(name).type) for name, items in values.items()}
    fields = list(target)
    return pa.StructArray.from_arrays([children[field.name] for field in fields], fields=fields, mask=read.is_null())


@cache
def _is_known_to_arrow(data_type: spark.DataType) -> bool:
    if isinstance(data_type, spark.StructType):
        return all(_is_known_to_arrow(field.dataType) for field in data_type)
    if isinstance(data_type, spark.ArrayType):
        return _is_known_to_arrow(data_type.elementType)
    return isinstance(data_type, _KNOWN_TO_ARROW)


def read_by_arrow(rows: list[bytes | None], target: Any) -> Any:
    """The column, or None if anything is wrong.

    Each record stands in an array in an object of its own. A record could close these and open others, but none can swallow
    the next one, so that as many objects as records, with one item each, means one for each.
    """
    if not rows:
        return pa.nulls(0, target)
    text = b'{"v":[' + b']}\n{"v":['.join([b"null" if row is None else row for row in rows]) + b"]}"
    if not _is_utf8(text):
        # Arrow does not look at the text of fields that it ignores.
        return None
    try:
        table = arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema([("v", pa.list_(_read_as(target)))]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        lists = table.column("v").combine_chunks()
        lists.validate(full=True)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if len(lists) != len(rows) or lists.null_count or not pc.all(pc.equal(pc.list_value_length(lists), 1)).as_py():
        return None
    return _as_python_has_it(lists.flatten(), target)


@cache
def _read_as(target: Any) -> Any:
    """The type that Arrow reads for one that it has no reader for, or one that rounds otherwise than Python does."""
    if pa.types.is_struct(target):
        return pa.struct([field.with_type(_read_as(field.type)) for field in target])
    if pa.types.is_list(target):
        return pa.list_(target.value_field.with_type(_read_as(target.value_type)))
    if pa.types.is_float32(target):
        return pa.float64()
    is_text = pa.types.is_date32(target) or (pa.types.is_timestamp(target) and target.tz is None)
    return pa.string() if is_text else target


def _as_python_has_it(read: Any, target: Any) -> Any:
    """A column of the type that it is to be; None if Python would not take some of it."""
    if read.type != _read_as(target) or not _is_as_python_has_it(read):
        return None
    if read.type == target:
        return read
    try:
        column = read.cast(target)
    except pa.ArrowInvalid:
        return None
    return column if _is_as_python_has_it(column) else None


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_as_python_has_it(column: Any) -> bool:
    """Whether all moments are in the years that Python has, and no number was too large to be one."""
    if pa.types.is_struct(column.type):
        return all(_is_as_python_has_it(child) for child in column.flatten())
    if pa.types.is_list(column.type):
        return _is_as_python_has_it(column.flatten())
    if pa.types.is_floating(column.type):
        return bool(pc.all(pc.is_finite(column), min_count=0).as_py())
    if pa.types.is_timestamp(column.type) or pa.types.is_date32(column.type):
        earliest, latest = _python_years(column.type)
        is_inside = pc.and_(pc.greater_equal(column, earliest), pc.less_equal(column, latest))
        return bool(pc.all(is_inside, min_count=0).as_py())
    return True


@cache
def _python_years(kind: Any) -> tuple[pa.Scalar, pa.Scalar]:
    """Made with the first record: whatever Arrow makes of Python's values, it loads Pandas for, where that is installed."""
    moments = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    earliest, latest = (
        pa.scalar(moment.date() if pa.types.is_date32(kind) else moment.replace(tzinfo=UTC if kind.tz else None), kind)
        for moment in moments
    )
    return earliest, latest


def read_by_python(rows: list[bytes | None], data_type: spark.DataType) -> Decoded:
    convert = converter(data_type)
    values: list[Any] = []
    errors: dict[int, str] = {}
    for index, row in enumerate(rows):
        try:
            values.append(None if row is None else _read_one(row, convert, data_type))
        except Undecodable as error:
            values.append(None)
            errors[index] = str(error)
    return Decoded(pa.array(values, arrow_type(data_type)), errors)


def _read_one(row: bytes, convert: Convert, data_type: spark.DataType) -> Any:
    """One record, which Arrow may read where Python cannot: what is too deep or too long for it may be in a field to ignore."""
    try:
        return parse_json(row, convert)
    except Unreadable:
        column = read_by_arrow([row], arrow_type(data_type)) if _is_known_to_arrow(data_type) else None
        if column is None:
            raise
        return column[0].as_py()
