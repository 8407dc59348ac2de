"""The format `json`. Arrow's own reader parses a whole column at once, several times as fast as Python does row by row.

It says only that something in the column is wrong, and it does not know every type; Python's reader, which gives the reasons,
then reads the same rows. Both accept the same records and give the same values, so that what becomes of a record does not depend
on those beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json
from pyspark.sql import types as spark

from catchment.spark.formats.decoder import Decoded, Undecodable, arrow_type
from catchment.spark.formats.framing import unframe
from catchment.spark.formats.json_values import Convert, Unreadable, converter, parse_json
from catchment.spark.formats.payloads import Payloads

_KNOWN_TO_ARROW: Final = (
    spark.BooleanType,
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
    spark.DoubleType,
    spark.StringType,
    spark.TimestampType,
    spark.DecimalType,
)


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
        if _is_known_to_arrow(self.data_type):
            column = read_by_arrow(rows, arrow_type(self.data_type))
            if column is not None:
                return Decoded(column, {})
        return read_by_python(rows, self.data_type)


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
                explicit_schema=pa.schema([("v", pa.list_(target))]),
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
    column = lists.flatten()
    return column if column.type == target and _is_as_python_has_it(column) else None


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
    if pa.types.is_timestamp(column.type):
        earliest, latest = _python_years()
        is_inside = pc.and_(pc.greater_equal(column, earliest), pc.less_equal(column, latest))
        return bool(pc.all(is_inside, min_count=0).as_py())
    return True


@cache
def _python_years() -> tuple[pa.Scalar, pa.Scalar]:
    """Made with the first record: whatever Arrow makes of Python's values, it loads Pandas for, where that is installed."""
    moments = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    earliest, latest = (pa.scalar(moment, pa.timestamp("us", "UTC")) for moment in moments)
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
