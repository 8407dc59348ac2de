"""Encode and decode messages, with the newest class of each API on our side for any version on the wire.

Requests of old versions are lifted to the newest class, and responses lowered from it. `adapters` handle differences between
versions other than added fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any

from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from catchment.protocol.adapters import ADAPTED
from catchment.protocol.adapters.conversion import is_writable_as, lift, lower
from catchment.protocol.apis import APIS, newest, request_class, response_class
from catchment.protocol.budget import request_memory, response_memory
from catchment.protocol.errors import MalformedRequest, is_native_panic
from catchment.protocol.guard import guarded


def decode_request(api_key: int, version: int, body: memoryview | bytes) -> Any:
    """Decode a request body at this version to the newest class. Raises MalformedRequest."""
    return _decoder(api_key, version, EntityType.request)(bytes(body))


def decode_response(api_key: int, version: int, body: memoryview | bytes) -> Any:
    """Decode a response body at this version to the newest class. Raises MalformedRequest."""
    return _decoder(api_key, version, EntityType.response)(bytes(body))


def encode_request(request: Any, version: int) -> bytes:
    """Encode a request, given as the newest class, at this version."""
    return _encoder(request.__api_key__, version, EntityType.request)(request)


def encode_response(response: Any, version: int) -> bytes:
    """Encode a response, given as the newest class, at this version."""
    return _encoder(response.__api_key__, version, EntityType.response)(response)


@cache
def _decoder(api_key: int, version: int, kind: EntityType) -> Callable[[bytes], Any]:
    version_class = _message_class(api_key, version, kind)
    newest_class = _message_class(api_key, newest(api_key), kind)
    read = entity_reader(version_class)
    adapt = _adapter(api_key, f"lift_{kind.name}") or lift
    is_lifted = version_class is not newest_class
    memory_for = request_memory if kind is EntityType.request else response_memory

    def decode(body: bytes) -> Any:
        checked = guarded(version_class, body, memory_for(len(body)), is_lifted=is_lifted)
        try:
            message, size = read(checked, 0)
            if size != len(checked):
                raise MalformedRequest(f"{version_class.__name__} has {len(checked)} bytes, but kio has read {size}")
            return adapt(message, newest_class)
        except MalformedRequest:
            raise
        except BaseException as cause:
            if not isinstance(cause, Exception) and not is_native_panic(cause):
                raise
            raise MalformedRequest(f"{version_class.__name__} version {version}: {cause}") from cause

    return decode


@cache
def _encoder(api_key: int, version: int, kind: EntityType) -> Callable[[Any], bytes]:
    version_class = _message_class(api_key, version, kind)
    newest_class = _message_class(api_key, newest(api_key), kind)
    write = entity_writer(version_class)
    adapt = _adapter(api_key, f"lower_{kind.name}")
    if adapt is None and not is_writable_as(newest_class, version_class):
        adapt = lower

    def encode(message: Any) -> bytes:
        buffer = BytesIO()
        write(buffer, message if adapt is None else adapt(message, version_class))
        return buffer.getvalue()

    return encode


def _message_class(api_key: int, version: int, kind: EntityType) -> Any:
    return request_class(api_key, version) if kind is EntityType.request else response_class(api_key, version)


def _adapter(api_key: int, name: str) -> Callable[[Any, Any], Any] | None:
    module = APIS[api_key].module
    if module not in ADAPTED:
        return None
    return getattr(import_module(f"catchment.protocol.adapters.{module}"), name, None)
