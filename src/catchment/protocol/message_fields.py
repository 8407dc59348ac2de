"""The fields of kio's message classes: what each holds, read from the dataclass itself.

kio has functions for this in a private module only. The dataclasses, their types and their metadata are public.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin

from kio.schema.errors import ErrorCode

_ZEROS: Final[dict[str, object]] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "float64": 0.0,
    "error_code": ErrorCode.none,
    "uuid": None,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": datetime.fromtimestamp(0, UTC),
}


class MessageField(NamedTuple):
    """One field of a message class."""

    name: str
    struct: Any
    """The class of a nested struct, or of the elements of an array of structs. None for primitives."""
    is_array: bool
    is_nullable: bool
    """Whether the value itself may be null. Elements of an array of UUIDs may be null although the array may not."""
    kafka_type: str | None
    """The primitive type, or that of an array's elements. None for structs."""
    tag: int | None
    default: Any
    """The default that the schema names, or MISSING."""
    annotation: Any
    """The Python type, which distinguishes an `i32` from a `BrokerId`."""

    @property
    def is_single_struct(self) -> bool:
        return self.struct is not None and not self.is_array

    @property
    def is_struct_array(self) -> bool:
        return self.struct is not None and self.is_array

    def default_value(self) -> Any:
        """The schema's default, or else null, empty or zero, as Kafka's generated classes have it."""
        if self.default is not MISSING:
            return self.default
        if self.is_nullable:
            return None
        if self.is_array:
            return ()
        if self.struct is not None:
            return self.struct(**{inner.name: inner.default_value() for inner in message_fields(self.struct)})
        return _ZEROS.get(self.kafka_type or "", 0)


def message_fields(message_class: Any) -> Iterator[MessageField]:
    """Every field of a message or struct class, in the order of the schema."""
    return map(message_field, fields(message_class))


def message_field(field: Field[Any]) -> MessageField:
    is_nullable = False
    value_type: Any = field.type
    if get_origin(value_type) is UnionType:
        is_nullable = NoneType in get_args(value_type)
        (value_type,) = [one for one in get_args(value_type) if one is not NoneType]
    is_array = get_origin(value_type) is tuple
    if is_array:
        value_type = get_args(value_type)[0]
    return MessageField(
        field.name,
        value_type if is_dataclass(value_type) else None,
        is_array,
        is_nullable,
        field.metadata.get("kafka_type"),
        field.metadata.get("tag"),
        field.default,
        field.type,
    )
