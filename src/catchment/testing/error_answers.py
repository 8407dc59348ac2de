"""An answer that says nothing but an error, for any API, shaped after the request.

Clients read an error where they expect it: at the partition, the topic or the resource that they asked about. So the answer
mirrors the request: an entry for each of its entries, with the fields that both have in common, and the error at the
smallest unit that has a place for it.
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
"""What a request and its answer may call by different names."""
_KEYS: Final = ("key", "group_id", "transactional_id", "partition", "partition_index")
"""The field of an answer that repeats a plain value that was asked for."""
_ERRORS: Final = ("error_code", "partition_error_code")
_NAMED: Final[dict[Any, Any]] = {
    OffsetCommitResponseTopic: offset_commit.OffsetCommitResponseTopic,
    OffsetFetchResponseTopics: offset_fetch.OffsetFetchResponseTopics,
}
"""Topics that Kafka's newest answers know by id alone, with the name that older versions want."""


def error_answer(api_key: int, request: Any, code: ErrorCode) -> Any:
    """The newest response class, with `code` for everything that the request, of the newest class too, asks about."""
    return _mirror(response_class(api_key, newest(api_key)), request, code)


def _mirror(answer_class: Any, asked: Any, code: ErrorCode) -> Any:
    answer_class = _NAMED.get(answer_class, answer_class)
    values: dict[str, Any] = {
        one.name: _entries(one, asked, code) for one in message_fields(answer_class) if one.is_struct_array
    }
    has_smaller_unit = any(values.values())
    for one in message_fields(answer_class):
        if one.name in _ERRORS:
            values[one.name] = ErrorCode.none if has_smaller_unit else code
        elif one.name not in values:
            values[one.name] = _value(one, asked)
    return answer_class(**values)


def _entries(one: MessageField, asked: Any, code: ErrorCode) -> tuple[Any, ...]:
    """An entry for each that was asked about, if the array's entries can carry an error and there is something to mirror."""
    if not _carries_error(one.struct):
        return ()
    return tuple(_mirror(one.struct, entry, code) for entry in _asked_entries(asked, one.name))


def _carries_error(entry_class: Any) -> bool:
    return any(
        one.name in _ERRORS or (one.is_struct_array and _carries_error(one.struct))
        for one in message_fields(entry_class)
    )


def _asked_entries(asked: Any, name: str) -> tuple[Any, ...]:
    """The request's array of the same name, else its first: it asks for one kind of thing, whatever the answer calls it.

    Structs come before plain values: a coordinator's key or a group's name is asked for by itself.
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
