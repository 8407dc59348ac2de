"""The format `csv`: a record is one row of delimited text without a header, whose fields are the columns of the schema in order.

Columns are split and converted as a whole where no field is quoted; what that cannot do, or finds wrong, is done row by row in
Python, which gives the reasons. Where both accept a field they give the same value. An empty field is null, quoted or not.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoder import Decoded, Undecodable, arrow_type
from catchment.spark.formats.json.values import Convert, converter
from catchment.spark.formats.payloads import Payloads
from catchment.spark.formats.text import TextDecoder

_WHOLE: Final = r"^-?[0-9]{1,40}$"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_LINE_ENDS: Final = (b"\n", b"\r")
_BOOLEANS: Final = {"true": True, "false": False}
_WHOLE_TYPES: Final = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
_FLOATING_TYPES: Final = (spark.FloatType, spark.DoubleType)

# A field is as long as its record allows. Python's own limit is for files that never end, and holds for the whole process.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True)
class CsvDecoder:
    """Rows of one struct."""

    data_type: spark.StructType
    delimiter: str = ","
    quote: str = '"'

    def decode(self, payloads: Payloads) -> Decoded:
        text = TextDecoder().decode(payloads)
        errors = dict(text.errors)
        fields = self._split_whole(text.column) if self._is_plain(payloads) else None
        if fields is None:
            fields = self._split_rows(text.column, errors)
        columns = [self._convert(field, column, errors) for field, column in zip(self.data_type, fields, strict=True)]
        present = np.array(text.column.is_valid())
        present[list(errors)] = False
        struct = pa.StructArray.from_arrays(
            columns, fields=list(arrow_type(self.data_type)), mask=pa.array(np.logical_not(present))
        )
        return Decoded(struct, dict(sorted(errors.items())))

    def _is_plain(self, payloads: Payloads) -> bool:
        whole = payloads.data.tobytes()
        return not any(mark in whole for mark in (self.quote.encode(), *_LINE_ENDS))

    def _split_whole(self, texts: Any) -> list[Any] | None:
        """The fields of all rows, column by column; None if a row does not have as many as it should."""
        count = len(self.data_type)
        lists = pc.split_pattern(texts, self.delimiter)
        lengths = pc.list_value_length(lists)
        if not pc.all(pc.equal(lengths, count), min_count=0).as_py():
            return None
        rows = np.flatnonzero(np.array(texts.is_valid()))
        values = lists.flatten()
        # Where each row's fields begin among those of all rows; rows without a record have none.
        begins = pa.array(np.arange(len(rows)) * count)
        places = np.full(len(texts), -1)
        places[rows] = np.array(begins)
        mask = places < 0
        return [values.take(pa.array(places + number, mask=mask)) for number in range(count)]

    def _split_rows(self, texts: Any, errors: dict[int, str]) -> list[Any]:
        count = len(self.data_type)
        rows: list[list[str | None]] = []
        for row, text in enumerate(texts.to_pylist()):
            fields: list[str | None] = [None] * count
            if text is not None:
                try:
                    fields = list(self._fields(text))
                except Undecodable as error:
                    errors[row] = str(error)
            rows.append(fields)
        return [pa.array([fields[number] for fields in rows], pa.string()) for number in range(count)]

    def _fields(self, text: str) -> list[str]:
        line = text.removesuffix("\n").removesuffix("\r")
        try:
            found = next(csv.reader([line], delimiter=self.delimiter, quotechar=self.quote, strict=True)) or [""]
        except csv.Error as error:
            raise Undecodable(f"not a row of delimited text: {error}") from None
        if len(found) != len(self.data_type):
            raise Undecodable(f"the number of fields is {len(found)}, not {len(self.data_type)}")
        return found

    def _convert(self, field: spark.StructField, texts: Any, errors: dict[int, str]) -> Any:
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        column = _convert_whole(field.dataType, texts)
        return _convert_rows(field, texts, errors) if column is None else column


def _convert_whole(data_type: spark.DataType, texts: Any) -> Any:
    """The column, or None if a field in it is wrong or of a type that is converted one by one."""
    if isinstance(data_type, spark.StringType):
        return texts
    pattern = _WHOLE if isinstance(data_type, _WHOLE_TYPES) else _NUMBER
    if not isinstance(data_type, (*_WHOLE_TYPES, spark.DoubleType)):
        return None
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        return None
    try:
        column = texts.cast(arrow_type(data_type))
    except pa.ArrowInvalid:
        return None
    is_whole = isinstance(data_type, _WHOLE_TYPES)
    return column if is_whole or pc.all(pc.is_finite(column), min_count=0).as_py() else None


def _convert_rows(field: spark.StructField, texts: Any, errors: dict[int, str]) -> Any:
    convert = converter(field.dataType)
    values: list[Any] = []
    for row, text in enumerate(texts.to_pylist()):
        value = None
        if text is not None:
            try:
                value = _value(field.dataType, text, field.name, convert)
            except Undecodable as error:
                errors.setdefault(row, str(error))
        values.append(value)
    return pa.array(values, arrow_type(field.dataType))


def _value(data_type: spark.DataType, text: str, name: str, convert: Convert) -> Any:
    value: Any = text
    if isinstance(data_type, _WHOLE_TYPES):
        if not re.fullmatch(_WHOLE, text):
            raise Undecodable(f"{name} is not a whole number")
        value = int(text)
    elif isinstance(data_type, _FLOATING_TYPES):
        if not re.fullmatch(_NUMBER, text):
            raise Undecodable(f"{name} is not a number")
        value = Decimal(text)
    elif isinstance(data_type, spark.BooleanType):
        if text.lower() not in _BOOLEANS:
            raise Undecodable(f"{name} is neither true nor false")
        value = _BOOLEANS[text.lower()]
    return convert(value, name)


def check_csv(data_type: spark.DataType, delimiter: str, quote: str) -> spark.StructType:
    """SettingsError unless rows of delimited text can be of this type."""
    if not isinstance(data_type, spark.StructType):
        raise SettingsError("the format csv needs a schema of columns", 'Write it like "id bigint, name string".')
    for field in data_type:
        if not isinstance(field.dataType, spark.AtomicType) or isinstance(field.dataType, spark.BinaryType):
            raise SettingsError(
                f"the format csv has no fields of type {field.dataType.simpleString()}, as {field.name} should be",
                "Give that field the type string, and convert it in the query.",
            )
        converter(field.dataType)
    if len(delimiter) != 1 or len(quote) != 1 or delimiter == quote or {delimiter, quote} & {"\n", "\r"}:
        raise SettingsError(
            f"csvDelimiter is {delimiter!r} and csvQuote {quote!r}", "Give two different characters; \\t means a tab."
        )
    return data_type
