"""A response that reports only an error, for any API, in the form of the request.

Clients read an error at the partition, the topic or the resource of their request. So the response mirrors the request: an entry
for each of its entries, with the fields that both have, and the error at the smallest unit that has a field for it.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10.response import OffsetCommitResponseTopic
from kio.schema.offset_fetch.v10.response import OffsetFetchResponseTopics

from catchment.protocol.adapters import offset_commit, offset_fetch
from catchment.protocol.apis import newest, response_class
from catchment.protocol.message_fields import MessageField, message_fields

_ONE_NAME: Final = {"index": "partition", "partition_index": "partition"}
"""Fields with different names in a request and its response."""
_KEYS: Final = ("key", "group_id", "transactional_id", "partition", "partition_index")
"""The field of a response that repeats a primitive value of the request."""
_ERRORS: Final = ("error_code", "partition_error_code")
_NAMED: Final[dict[Any, Any]] = {
    OffsetCommitResponseTopic: offset_commit.OffsetCommitResponseTopic,
    OffsetFetchResponseTopics: offset_fetch.OffsetFetchResponseTopics,
}
"""Topics that have only an id in Kafka's newest responses, with the name that older versions need."""


def error_response(api_key: int, request: Any, code: ErrorCode) -> Any:
    """The newest response class, with `code` for everything in the request, which is of the newest class too."""
    return _mirror(response_class(api_key, newest(api_key)), request, code)


def _mirror(struct_class: Any, asked: Any, code: ErrorCode) -> Any:
    struct_class = _NAMED.get(struct_class, struct_class)
    values: dict[str, Any] = {
        one.name: _entries(one, asked, code) for one in message_fields(struct_class) if one.is_struct_array
    }
    has_smaller_unit = any(values.values())
    for one in message_fields(struct_class):
        if one.name in _ERRORS:
            values[one.name] = ErrorCode.none if has_smaller_unit else code
        elif one.name not in values:
            values[one.name] = _value(one, asked)
    return struct_class(**values)


def _entries(one: MessageField, asked: Any, code: ErrorCode) -> tuple[Any, ...]:
    """An entry for each of the request, if the entries of the array have a field for an error."""
    if not _carries_error(one.struct):
        return ()
    return tuple(_mirror(one.struct, entry, code) for entry in _asked_entries(asked, one.name))


def _carries_error(entry_class: Any) -> bool:
    return any(
        one.name in _ERRORS or (one.is_struct_array and _carries_error(one.struct))
        for one in message_fields(entry_class)
    )


def _asked_entries(asked: Any, name: str) -> tuple[Any, ...]:
    """The request's array of the same name, else its first, which has the requested things under another name.

    Structs come before primitive values.
    """
    sources = list(message_fields(asked)) if is_dataclass(asked) else []
    structs = [one for one in sources if one.is_struct_array]
    named = [one for one in structs if one.name == name]
    plain = [one for one in sources if one.is_array and not one.is_nullable]
    return next((getattr(asked, one.name) or () for one in [*named, *structs, *plain]), ())


def _value(one: MessageField, asked: Any) -> Any:
    if not is_dataclass(asked):
        if isinstance(asked, str) == (one.kafka_type == "string") and one.name in _KEYS:
            return asked
        return one.default_value()
    wanted = _ONE_NAME.get(one.name, one.name)
    for source in message_fields(asked):
        if _ONE_NAME.get(source.name, source.name) == wanted and source.annotation == one.annotation:
            return getattr(asked, source.name)
    return one.default_value()
