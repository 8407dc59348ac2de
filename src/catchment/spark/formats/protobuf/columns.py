"""Parsed Protobuf messages to Arrow, column by column: a list of one field of all messages is cheaper than a dict a message.

A field without presence that has its default value, such as a zero in proto3, is null as in Spark's `from_protobuf`, unless
default values are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import types as spark

from catchment.spark.formats.decoder import arrow_type
from catchment.spark.formats.payloads import bitmap
from catchment.spark.formats.protobuf.schema import is_map


def message_column(messages: Sequence[Any], descriptor: Any, data_type: spark.StructType, with_defaults: bool) -> Any:
    """A struct for each message, null for None. Raises `ArrowInvalid` if a value fits into no column."""
    try:
        return _struct(messages, descriptor, data_type, with_defaults)
    except (OverflowError, UnicodeDecodeError, pa.ArrowInvalid):
        raise pa.ArrowInvalid("a string is not UTF-8, or a time is beyond what microseconds can hold") from None


def _struct(messages: Sequence[Any], descriptor: Any, data_type: spark.StructType, with_defaults: bool) -> Any:
    present = np.fromiter((message is not None for message in messages), np.bool_, len(messages))
    if not present.all():
        empty = GetMessageClass(descriptor)()
        messages = [empty if message is None else message for message in messages]
    children = [
        _field(messages, descriptor.fields_by_name[field.name], field.dataType, with_defaults) for field in data_type
    ]
    return pa.Array.from_buffers(arrow_type(data_type), len(messages), [bitmap(present)], children=children)


def _field(messages: Sequence[Any], field: FieldDescriptor, data_type: spark.DataType, with_defaults: bool) -> Any:
    values = list(map(attrgetter(field.name), messages))
    if isinstance(data_type, spark.MapType):
        return _map(values, field, data_type, with_defaults)
    if field.is_repeated and isinstance(data_type, spark.ArrayType):
        items = [item for value in values for item in value]
        return _container(values, data_type, _items(items, field, data_type.elementType, with_defaults))
    if field.has_presence and not field.has_default_value:
        name = field.name
        values = [value if message.HasField(name) else None for value, message in zip(values, messages, strict=True)]
    elif not field.has_presence and not with_defaults:
        values = [value if value or _is_negative_zero(value) else None for value in values]
    return _items(values, field, data_type, with_defaults)


def _is_negative_zero(value: Any) -> bool:
    """It is equal to the default of a number with a fraction, but it is not the default."""
    return type(value) is float and copysign(1, value) < 0


def _items(values: list[Any], field: FieldDescriptor, data_type: spark.DataType, with_defaults: bool) -> Any:
    target = arrow_type(data_type)
    if isinstance(data_type, spark.StructType):
        return _struct(values, field.message_type, data_type, with_defaults)
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return pa.array(_each(values, _microseconds), pa.int64()).cast(target)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return pa.array(_each(values, _enum_names(field)), target)
    return pa.array(values, target)


def _map(values: list[Any], field: FieldDescriptor, data_type: spark.MapType, with_defaults: bool) -> Any:
    assert is_map(field)
    entry = field.message_type.fields_by_name
    pairs = [pair for value in values for pair in value.items()]
    keys = _items([key for key, _ in pairs], entry["key"], data_type.keyType, with_defaults)
    items = _items([item for _, item in pairs], entry["value"], data_type.valueType, with_defaults)
    target = arrow_type(data_type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return _container(values, data_type, entries)


def _container(values: list[Any], data_type: spark.DataType, items: Any) -> Any:
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return pa.Array.from_buffers(arrow_type(data_type), len(values), [None, pa.py_buffer(offsets)], children=[items])


def _each(values: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _microseconds(moment: Any) -> int:
    """Of a Timestamp or a Duration; what is less than a microsecond is cut off towards zero."""
    nanos = moment.nanos
    microseconds: int = moment.seconds * 1_000_000 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))
    return microseconds


def _enum_names(field: FieldDescriptor) -> Callable[[int], str]:
    """The name of a number, and for one that the schema does not have the same text as Protobuf for Java gives."""
    names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
    enum_name = field.enum_type.name
    return lambda number: names.get(number) or f"UNKNOWN_ENUM_VALUE_{enum_name}_{number}"
