"""From a frame to its handler and back.

A handler's coroutine is run until its first suspension, right where the frame arrived. If it finishes, its response is sent at
once; it becomes a task only if it suspends. So a request that need not wait costs no scheduling, and a Produce has appended its
batch before the receive buffer is reused. A message that is too large for the event loop is decoded or encoded on a thread, and
its connection serves no other request in the meantime.
"""

import asyncio
import dataclasses
import importlib
import logging
import struct
import sys
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kio.static.primitive import i32Timedelta

from catchment.broker import handlers
from catchment.broker.context import RequestContext
from catchment.broker.handlers import CLAIMS
from catchment.broker.network.connection import Connection, PendingResponse
from catchment.broker.network.large_messages import LARGE_FRAME_BYTES, CodecThread, is_large
from catchment.broker.quotas.meter import RequestMeter
from catchment.protocol import codec, produce
from catchment.protocol.apis import API_VERSIONS_KEY, APIS
from catchment.protocol.errors import ApiError, MalformedRequest
from catchment.protocol.headers import RequestHeader, encode_response_header, parse_request_header
from catchment.protocol.wire import Piece

if TYPE_CHECKING:
    from catchment.broker.context import Services

_logger = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")
_ANONYMOUS = "User:ANONYMOUS"
"""The principal of every request: there is no authentication."""

Request = TypeVar("Request")
Response = TypeVar("Response")
Handler = Callable[[RequestContext, Request], Coroutine[Any, Any, Response]]
Decoder = Callable[[memoryview, RequestHeader], Any]


class Encoder(Protocol):
    """Encodes the body of a response; `throttle_time_ms` is given only if a quota throttles the client."""

    def __call__(self, response: Any, header: RequestHeader, throttle_time_ms: int = 0, /) -> Sequence[Piece]: ...


class Route(NamedTuple):
    """How this broker serves an API."""

    key: int
    oldest: int
    newest: int
    handler: Callable[[RequestContext, Any], Coroutine[Any, Any, Any]]
    decode: Decoder
    encode: Encoder
    is_large: Callable[[Any], bool]
    """Whether a thread should encode the response. An API with its own encoder never has a large response without suspending."""
    decode_copy: Decoder | None
    """For an API whose large frames are usually quick to decode: `decode` raises ManyPartitions for a slow one, and a thread
    decodes a copy with this. For other APIs the size of the frame decides."""
    blocks_connection: bool
    """Whether later requests of the connection wait for this response."""
    cancel_on_disconnect: bool
    """Whether the handler is cancelled when its connection is lost. Only for handlers that mostly wait: they make each change in
    one step, or under a shield."""


class Interceptor(Protocol):
    """Lets a test respond in place of a handler, or change its response."""

    def intercept(self, route: Route, context: RequestContext, request: Any) -> Coroutine[Any, Any, Any] | None:
        """The coroutine to run in place of the handler, or None to run the handler."""
        ...


_routes: dict[int, Route] = {}


def decode_message(frame: memoryview, header: RequestHeader) -> Any:
    return codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])


def encode_message(response: Any, header: RequestHeader, throttle_time_ms: int = 0) -> Sequence[Piece]:
    if throttle_time_ms and hasattr(response, "throttle_time"):
        throttle_time = i32Timedelta.parse(timedelta(milliseconds=throttle_time_ms))
        response = dataclasses.replace(response, throttle_time=throttle_time)
    return (codec.encode_response(response, header.api_version),)


def api(
    key: int,
    *,
    versions: tuple[int, int],
    decode: Decoder = decode_message,
    encode: Encoder = encode_message,
    is_large: Callable[[Any], bool] = is_large,
    decode_copy: Decoder | None = None,
    blocks_connection: bool = False,
    cancel_on_disconnect: bool = False,
) -> Callable[[Handler[Request, Response]], Handler[Request, Response]]:
    """Register the handler of an API, and the versions that it serves."""

    def register(handler: Handler[Request, Response]) -> Handler[Request, Response]:
        claim = CLAIMS[key]
        if (claim.oldest, claim.newest) != versions or handler.__module__ != f"{handlers.__name__}.{claim.module}":
            raise ValueError(f"{handler.__module__} serves {APIS[key].name} {versions}, but the index has {claim}")
        _routes[key] = Route(
            key, *versions, handler, decode, encode, is_large, decode_copy, blocks_connection, cancel_on_disconnect
        )
        return handler

    return register


def route_for(key: int) -> Route:
    """The route of an API in the index; imports its handler on first use."""
    route = _routes.get(key)
    if route is None:
        importlib.import_module(f"{handlers.__name__}.{CLAIMS[key].module}")
        route = _routes[key]
    return route


@types.coroutine
def _continue(
    coroutine: Coroutine[Any, Any, Any], awaited: Any, meter: RequestMeter | None
) -> Generator[Any, Any, Any]:
    """Continue a coroutine that is suspended on `awaited`."""
    while True:
        try:
            try:
                value = yield awaited
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(value) if meter is None else meter.step(coroutine, value)
        except StopIteration as finished:
            return finished.value


@types.coroutine
def _drive(coroutine: Coroutine[Any, Any, Any], meter: RequestMeter | None) -> Generator[Any, Any, Any]:
    """Run a coroutine that has not started."""
    try:
        awaited = coroutine.send(None) if meter is None else meter.step(coroutine, None)
    except StopIteration as finished:
        return finished.value
    return (yield from _continue(coroutine, awaited, meter))


async def _ready(response: Any) -> Any:
    return response


def _framed(header: RequestHeader, body: Sequence[Piece]) -> Sequence[Piece]:
    head = encode_response_header(header.correlation_id, header.api_key, header.api_version)
    size = len(head) + sum(map(len, body))
    return (_LENGTH.pack(size) + head, *body)


class Router:
    def __init__(self, services: "Services", interceptor: Interceptor | None = None) -> None:
        self._services = services
        self._interceptor = interceptor
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._codec = CodecThread()

    def dispatch(self, connection: Connection, frame: memoryview) -> Sequence[Piece] | None:
        """Serve one request: its response, or None if that will follow later; MalformedRequest if it cannot be decoded."""
        header = parse_request_header(frame)
        claim = CLAIMS.get(header.api_key)
        if claim is None or not claim.oldest <= header.api_version <= claim.newest:
            if header.api_key != API_VERSIONS_KEY:
                raise MalformedRequest(f"API key {header.api_key} version {header.api_version} is not served")
            # Any version of ApiVersions gets a response that the client can decode: version 0, with the error and the table (KIP-511).
            header, route, request = header._replace(api_version=0), route_for(API_VERSIONS_KEY), None
        else:
            route = _routes.get(header.api_key) or route_for(header.api_key)
            if frame.nbytes > LARGE_FRAME_BYTES and route.decode_copy is None:
                self._start_large(connection, route, header, frame)
                return None
            try:
                request = route.decode(frame, header)
            except produce.ManyPartitions:
                self._start_large(connection, route, header, frame)
                return None
        meter = self._meter(connection, header, frame.nbytes) if self._services.quotas.is_active else None
        coroutine = self._handler(route, self._context(connection, header, meter), request)
        try:
            awaited = coroutine.send(None) if meter is None else meter.step(coroutine, None)
        except StopIteration as finished:
            response = finished.value
            if route.encode is not encode_message or not is_large(response):
                return self._encoded(connection, route, header, response, meter)
            pending, rest = connection.reserve_response(blocks_connection=True), _ready(response)
        except Exception:
            self._failed(connection, header)
            return ()
        else:
            pending, rest = (
                connection.reserve_response(blocks_connection=route.blocks_connection),
                _continue(coroutine, awaited, meter),
            )
        serving = self._finish_later(connection, pending, route, header, rest, meter)
        self._start(pending, serving, cancel_on_disconnect=route.cancel_on_disconnect)
        return None

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        self._codec.close()

    def _start_large(self, connection: Connection, route: Route, header: RequestHeader, frame: memoryview) -> None:
        pending = connection.reserve_response(blocks_connection=True)
        # The receive buffer is reused before the thread decodes the frame.
        serving = self._serve_large(connection, pending, route, header, bytes(frame))
        # A large Produce is appended in several steps: all of it, even if the client disconnects before the response.
        self._start(pending, serving, cancel_on_disconnect=route.cancel_on_disconnect and route.key != produce.API_KEY)

    def _start(
        self, pending: PendingResponse, serving: Coroutine[Any, Any, None], *, cancel_on_disconnect: bool
    ) -> None:
        task = asyncio.get_running_loop().create_task(serving)
        if cancel_on_disconnect:
            pending.task = task
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _serve_large(
        self, connection: Connection, pending: PendingResponse, route: Route, header: RequestHeader, frame: bytes
    ) -> None:
        try:
            request = await self._codec.run(route.decode_copy or route.decode, memoryview(frame), header)
        except MalformedRequest as error:
            connection.reject(error)
            return
        meter = self._meter(connection, header, len(frame)) if self._services.quotas.is_active else None
        rest = _drive(self._handler(route, self._context(connection, header, meter), request), meter)
        await self._finish_later(connection, pending, route, header, rest, meter)

    def _context(self, connection: Connection, header: RequestHeader, meter: RequestMeter | None) -> RequestContext:
        self._services.traffic.requested(header.api_key)
        return RequestContext(self._services, header, connection.listener.name, connection.peer_host, connection, meter)

    def _meter(self, connection: Connection, header: RequestHeader, size: int) -> RequestMeter:
        meter = RequestMeter(self._services.quotas, _ANONYMOUS, header.client_id or "", header.api_key)
        if header.api_key == produce.API_KEY:
            # At once: a client that sends many requests before the first response must not have them all served.
            connection.mute(meter.produced(size))
        return meter

    def _handler(self, route: Route, context: RequestContext, request: Any) -> Coroutine[Any, Any, Any]:
        if self._interceptor is not None:
            replacement = self._interceptor.intercept(route, context, request)
            if replacement is not None:
                return replacement
        return route.handler(context, request)

    async def _finish_later(
        self,
        connection: Connection,
        pending: PendingResponse,
        route: Route,
        header: RequestHeader,
        rest: Awaitable[Any],
        meter: RequestMeter | None,
    ) -> None:
        try:
            response = await rest
            if response is not None and route.is_large(response):
                throttle_ms = self._throttle_ms(connection, response, meter)
                body = await self._codec.run(route.encode, response, header, throttle_ms)
                pieces = _framed(header, body)
            else:
                pieces = self._encoded(connection, route, header, response, meter)
        except Exception:
            self._failed(connection, header)
        else:
            connection.complete_response(pending, pieces)

    def _encoded(
        self, connection: Connection, route: Route, header: RequestHeader, response: Any, meter: RequestMeter | None
    ) -> Sequence[Piece]:
        """The response as a frame; empty if the client expects none."""
        throttle_ms = self._throttle_ms(connection, response, meter)
        if response is None:
            return ()
        try:
            body = route.encode(response, header, throttle_ms) if throttle_ms else route.encode(response, header)
        except Exception:
            self._failed(connection, header)
            return ()
        return _framed(header, body)

    def _throttle_ms(self, connection: Connection, response: Any, meter: RequestMeter | None) -> int:
        if meter is None:
            return 0
        throttle_ms = meter.finish(has_response=response is not None)
        # The response carries the throttle time. If the client does not wait by itself, its next requests stay unread (KIP-219).
        connection.mute(throttle_ms)
        return throttle_ms

    def _failed(self, connection: Connection, header: RequestHeader) -> None:
        """Close the connection after an internal error, or an error that no response can carry."""
        name = APIS[header.api_key].name
        error = sys.exception()
        if isinstance(error, ApiError):
            _logger.warning(
                "closing %s: %s failed without a response: %s",
                connection.peer_host,
                name,
                error,
            )
        else:
            _logger.exception("%s version %d failed; closing %s", name, header.api_version, connection.peer_host)
        connection.abort()
