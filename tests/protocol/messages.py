"""Hypothesis strategies that build any kio message at any version out of its dataclass."""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields, make_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from catchment.protocol.apis import APIS, request_class, response_class
from catchment.protocol.message_fields import message_field


def _integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    low = -(1 << bits - 1) if signed else 0
    return st.integers(low, low + (1 << bits) - 1)


_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_PRIMITIVES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "bool": st.booleans(),
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": _integers(16, signed=False),
    "int32": _integers(32),
    "int64": _integers(64),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=5),
    "bytes": st.binary(max_size=5),
    "records": st.binary(max_size=5),
    # kio reads the zero UUID as None.
    "uuid": st.none() | st.uuids(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _integers(32).map(lambda value: timedelta(milliseconds=value)),
    "timedelta_i64": _integers(40).map(lambda value: timedelta(milliseconds=value)),
    "datetime_i64": st.integers(0, 2**42).map(lambda value: _EPOCH + timedelta(milliseconds=value)),
}

# Fields that a newer version has dropped, with the value that a message gets without them.
DROPPED: Final[dict[str, st.SearchStrategy[Any]]] = {
    "retention_time": st.just(timedelta(milliseconds=-1)),
    "include_cluster_authorized_operations": st.just(False),
    "cluster_authorized_operations": st.just(-(2**31)),
}

KINDS: Final = {"request": request_class, "response": response_class}


def versions(api_key: int) -> range:
    """All the versions of an API that kio has."""
    return range(APIS[api_key].oldest, APIS[api_key].newest + 1)


@cache
def messages(message_class: Any) -> st.SearchStrategy[Any]:
    """Small instances of a message, of every form."""
    return st.builds(message_class, **{one.name: _values(message_class, one) for one in fields(message_class)})


def _values(message_class: Any, one: Field[Any]) -> st.SearchStrategy[Any]:
    if one.name in DROPPED:
        return DROPPED[one.name]
    if message_class.__name__ == "SupportedFeatureKey" and message_class.__version__ < 4 and one.name == "min_version":
        return st.integers(1, 5)
    shape = message_field(one)
    element = _PRIMITIVES[one.metadata["kafka_type"]] if shape.struct is None else messages(shape.struct)
    values = st.lists(element, max_size=2).map(tuple) if shape.is_array else element
    # kio writes a null tagged field only by omitting it, which it does for the default.
    if shape.is_nullable and (shape.tag is None or one.default is None):
        return st.none() | values
    return values


@cache
def from_the_future(message_class: Any) -> Any:
    """The class as in a later Kafka: with one more tagged field in every flexible struct, recursively."""
    members: list[Any] = [(one.name, _type_from_the_future(one), _same_field(one)) for one in fields(message_class)]
    if message_class.__flexible__:
        members.append(("unknown", bytes, field(metadata={"kafka_type": "bytes", "tag": 9000}, default=b"")))
    names = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")
    return make_dataclass(
        message_class.__name__,
        members,
        namespace={name: getattr(message_class, name) for name in names},
        frozen=True,
        kw_only=True,
    )


def _type_from_the_future(one: Field[Any]) -> Any:
    shape = message_field(one)
    if shape.struct is None:
        return one.type
    future: Any = from_the_future(shape.struct)
    future = tuple[future, ...] if shape.is_array else future
    return future | None if shape.is_nullable else future


def _same_field(one: Field[Any]) -> Any:
    is_struct = message_field(one).is_single_struct
    if one.default is MISSING or (is_struct and one.default is not None):
        return field(metadata=one.metadata)
    return field(metadata=one.metadata, default=one.default)
