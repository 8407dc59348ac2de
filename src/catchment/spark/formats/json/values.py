"""A parsed JSON value as one that Arrow takes for a Spark type, or the reason why it is not of that type.

What is missing or null is null, fields that the type does not have are ignored, anything else of a wrong type is an error:
silent conversions lose data.
"""

from __future__ import annotations

import decimal
import json
import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final

from pyspark.sql import types as spark

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoder import Undecodable

Convert = Callable[[Any, str], Any]


class Unreadable(Undecodable):
    """JSON, as far as Python can tell, but beyond its limits. Another reader may have others."""


_INTEGER_BITS: Final[dict[type[spark.DataType], int]] = {
    spark.ByteType: 8,
    spark.ShortType: 16,
    spark.IntegerType: 32,
    spark.LongType: 64,
}
_PACKED: Final[dict[type[spark.DataType], struct.Struct]] = {
    spark.FloatType: struct.Struct("<f"),
    spark.DoubleType: struct.Struct("<d"),
}
_DECODER: Final = json.JSONDecoder(parse_float=decimal.Decimal)
"""`json.loads` would make one for every record, which takes as long as reading it."""
_BYTE_ORDER_MARK: Final = "\ufeff"
_NOT_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
"""Spark writes these as text, since JSON has no numbers of the kind."""


def parse_json(payload: bytes, convert: Convert) -> Any:
    """One record. Numbers with a fraction stay exact until it is known what they are to be."""
    try:
        text = payload.decode()
        if text.startswith(_BYTE_ORDER_MARK):
            raise Undecodable("not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig) at character 1")
        return convert(_DECODER.decode(text), "$")
    except json.JSONDecodeError as error:
        raise Undecodable(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError as error:
        raise Undecodable(f"byte {error.start} is not UTF-8 ({error.reason})") from None
    except UnicodeEncodeError:
        raise Undecodable("a name in it is no text") from None
    except RecursionError:
        raise Unreadable("not JSON that can be read: it is nested too deeply") from None
    except decimal.DecimalException:
        raise Unreadable("not JSON that can be read: the exponent of a number is too large") from None
    except ValueError:
        # All that is left is Python's limit on the digits of a whole number.
        raise Unreadable("not JSON that can be read: a number has too many digits") from None


def converter(data_type: spark.DataType) -> Convert:
    """The conversion to a type. The second argument of the conversion is where the value stands, for the message."""
    if isinstance(data_type, spark.StructType):
        return _struct(data_type)
    if isinstance(data_type, spark.ArrayType):
        return _array(converter(data_type.elementType))
    if isinstance(data_type, spark.MapType) and isinstance(data_type.keyType, spark.StringType):
        return _map(converter(data_type.valueType))
    if type(data_type) in _INTEGER_BITS:
        return _integer(_INTEGER_BITS[type(data_type)])
    if isinstance(data_type, (spark.DoubleType, spark.FloatType)):
        return _floating(_PACKED[type(data_type)], data_type.typeName())
    if isinstance(data_type, spark.DecimalType):
        return _decimal(data_type)
    if isinstance(data_type, spark.TimestampType):
        return _of_text(_timestamp, "time")
    if isinstance(data_type, spark.TimestampNTZType):
        return _of_text(_wall_time, "time without a zone")
    if isinstance(data_type, spark.DateType):
        return _of_text(date.fromisoformat, "date")
    if isinstance(data_type, spark.StringType):
        return _of_text(_text, "text")
    if isinstance(data_type, spark.BooleanType):
        return _boolean
    raise SettingsError(
        f"the format json has no values of type {data_type.simpleString()}",
        "Give that field the type string, and convert it in the query.",
    )


def _wrong(place: str, value: Any, expected: str) -> Undecodable:
    names = {bool: "a boolean", int: "a number", decimal.Decimal: "a number", float: "a number", str: "a string"}
    found = names.get(type(value)) or ("an object" if isinstance(value, dict) else "an array")
    return Undecodable(f"{place} is {found}, not {expected}")


def _struct(data_type: spark.StructType) -> Convert:
    fields = [(field.name, converter(field.dataType)) for field in data_type]

    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(place, value, "an object")
        return {name: child(value.get(name), f"{place}.{name}") for name, child in fields}

    return convert


def _array(child: Convert) -> Convert:
    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise _wrong(place, value, "an array")
        return [child(item, f"{place}[]") for item in value]

    return convert


def _map(child: Convert) -> Convert:
    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(place, value, "an object")
        return [(_text(key), child(item, f"{place}.*")) for key, item in value.items()]

    return convert


def _integer(bits: int) -> Convert:
    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if type(value) is not int:
            raise _wrong(place, value, "a whole number")
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise Undecodable(f"{place} does not fit into {bits} bits")
        return value

    return convert


def _floating(packed: struct.Struct, name: str) -> Convert:
    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if value in _NOT_NUMBERS:
            return float(value)
        if type(value) not in (int, decimal.Decimal, float):
            raise _wrong(place, value, "a number")
        try:
            number = float(value)
            packed.pack(number)
        except OverflowError:
            number = math.inf
        if type(value) is not float and math.isinf(number):
            raise Undecodable(f"{place} is beyond what a {name} can hold")
        return number

    return convert


def _decimal(data_type: spark.DecimalType) -> Convert:
    context = decimal.Context(prec=data_type.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    step = decimal.Decimal(1).scaleb(-data_type.scale)

    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if type(value) not in (int, decimal.Decimal, str):
            raise _wrong(place, value, "a decimal")
        try:
            number = decimal.Decimal(value)
            if not number.is_finite():
                raise _wrong(place, value, "a decimal")
            return context.quantize(number, step)
        except decimal.DecimalException:
            raise Undecodable(f"{place} is no {data_type.simpleString()}") from None

    return convert


def _boolean(value: Any, place: str) -> Any:
    if value is not None and type(value) is not bool:
        raise _wrong(place, value, "a boolean")
    return value


def _of_text(read: Callable[[str], Any], what: str) -> Convert:
    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if type(value) is not str:
            raise _wrong(place, value, "a string" if what == "text" else f"a {what} in a string")
        try:
            return read(value)
        except (ValueError, OverflowError):
            raise Undecodable(
                f"{place} is not a {what} as in ISO 8601" if what != "text" else f"{place} is no text"
            ) from None

    return convert


def _text(value: str) -> str:
    """JSON can name half a character, which no text can hold."""
    value.encode()
    return value


def _timestamp(text: str) -> datetime:
    """A time without a zone is one in UTC."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _wall_time(text: str) -> datetime:
    """What a clock on the wall shows. To drop the zone of another kind of time, or to shift it, would make it another."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError(text)
    return moment
