"""The fields of message classes."""

from dataclasses import MISSING, dataclass, field
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from catchment.protocol.message_fields import MessageField, message_fields


@dataclass(frozen=True, kw_only=True)
class Inner:
    error: ErrorCode = field(metadata={"kafka_type": "error_code"})
    count: int = field(metadata={"kafka_type": "int32"}, default=-1)


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = field(metadata={"kafka_type": "string"})
    ids: tuple[UUID | None, ...] = field(metadata={"kafka_type": "uuid"})
    inner: Inner
    inners: tuple[Inner, ...] | None
    cursor: Inner | None = field(metadata={"tag": 3}, default=None)


OUTER = {one.name: one for one in message_fields(Outer)}


@pytest.mark.parametrize(
    ("name", "struct", "is_array", "is_nullable", "tag"),
    [
        ("name", None, False, False, None),
        ("ids", None, True, False, None),
        ("inner", Inner, False, False, None),
        ("inners", Inner, True, True, None),
        ("cursor", Inner, False, True, 3),
    ],
)
def test_the_shape_of_a_field(
    name: str, struct: type | None, is_array: bool, is_nullable: bool, tag: int | None
) -> None:
    one: MessageField = OUTER[name]
    assert (one.struct, one.is_array, one.is_nullable, one.tag) == (struct, is_array, is_nullable, tag)
    assert one.is_single_struct == (struct is not None and not is_array)
    assert one.is_struct_array == (struct is not None and is_array)


def test_defaults_are_those_of_the_schema_or_else_null_empty_and_zero() -> None:
    assert {name: one.default_value() for name, one in OUTER.items()} == {
        "name": "",
        "ids": (),
        "inner": Inner(error=ErrorCode.none, count=-1),
        "inners": None,
        "cursor": None,
    }
    assert OUTER["name"].default is MISSING
