"""The format `json`. Arrow's own reader parses a whole column at once, several times as fast as Python does row by row.

It says only that something in the column is wrong, and it does not know every type; Python's reader, which gives the reasons,
then reads the same rows. Where both accept a record they give the same value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as arrow_json
from pyspark.sql import types as spark

from catchment.spark.formats.decoder import Decoded, Undecodable, arrow_type
from catchment.spark.formats.framing import unframe
from catchment.spark.formats.json_values import converter, parse_json
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

    Each record stands in an object of its own. A record could close that object and open another, but none can swallow the
    next one, so that as many objects as records means one for each.
    """
    if not rows:
        return pa.nulls(0, target)
    text = b'{"v":' + b'}\n{"v":'.join([b"null" if row is None else row for row in rows]) + b"}"
    try:
        table = arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema([("v", target)]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        column = table.column("v").combine_chunks()
        column.validate(full=True)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    return column if len(column) == len(rows) and column.type == target else None


def read_by_python(rows: list[bytes | None], data_type: spark.DataType) -> Decoded:
    convert = converter(data_type)
    values: list[Any] = []
    errors: dict[int, str] = {}
    for index, row in enumerate(rows):
        try:
            values.append(None if row is None else parse_json(row, convert))
        except Undecodable as error:
            values.append(None)
            errors[index] = str(error)
    return Decoded(pa.array(values, arrow_type(data_type)), errors)
