"""From a frame to its handler and back.

A handler is driven once, right where the frame arrived. If it finishes, its answer leaves at once; only if it has to wait
is it made a task. So a request that needs no waiting costs no scheduling, and a Produce has appended its batch before the
receive buffer is used again. What is too large to be decoded or encoded in one go on the loop is a thread's work; the
connection serves nothing else meanwhile.
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
from catchment.broker.network.connection import Answer, Connection
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
"""Who asks: there is no authentication."""

Request = TypeVar("Request")
Response = TypeVar("Response")
Handler = Callable[[RequestContext, Request], Coroutine[Any, Any, Response]]
Decoder = Callable[[memoryview, RequestHeader], Any]


class Encoder(Protocol):
    """Makes the body of an answer; `throttle_time_ms` is given only if a quota makes the client pause."""

    def __call__(self, response: Any, header: RequestHeader, throttle_time_ms: int = 0, /) -> Sequence[Piece]: ...


class Route(NamedTuple):
    """An API as this broker serves it."""

    key: int
    oldest: int
    newest: int
    handler: Callable[[RequestContext, Any], Coroutine[Any, Any, Any]]
    decode: Decoder
    encode: Encoder
    is_large: Callable[[Any], bool]
    """Whether a thread should encode the answer. An API with an encoder of its own has no large answer without waiting."""
    decode_copy: Decoder | None
    """For frames that are large without taking long to decode. `decode` raises ManyPartitions where one would, and a thread
    decodes a copy with this. Otherwise the size of the frame decides."""
    holds_up: bool
    """Whether later requests of the connection wait until this one is answered."""
    ends_with_client: bool
    """Whether the handler is cancelled when its connection is lost. Only for handlers that mostly wait: what they change they
    change in one step, or under a shield."""


class Interceptor(Protocol):
    """Tests may answer in a handler's place, or change what it answers."""

    def intercept(self, route: Route, context: RequestContext, request: Any) -> Coroutine[Any, Any, Any] | None:
        """What to run in place of the handler, or None to let the request pass."""
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
    holds_up: bool = False,
    ends_with_client: bool = False,
) -> Callable[[Handler[Request, Response]], Handler[Request, Response]]:
    """Claim an API and the versions served."""

    def register(handler: Handler[Request, Response]) -> Handler[Request, Response]:
        claim = CLAIMS[key]
        if (claim.oldest, claim.newest) != versions or handler.__module__ != f"{handlers.__name__}.{claim.module}":
            raise ValueError(f"{handler.__module__} claims {APIS[key].name} {versions}, the index says {claim}")
        _routes[key] = Route(key, *versions, handler, decode, encode, is_large, decode_copy, holds_up, ends_with_client)
        return handler

    return register


def route_for(key: int) -> Route:
    """The route of an API in the index, loaded if it is the first time."""
    route = _routes.get(key)
    if route is None:
        importlib.import_module(f"{handlers.__name__}.{CLAIMS[key].module}")
        route = _routes[key]
    return route


@types.coroutine
def _continue(
    coroutine: Coroutine[Any, Any, Any], awaited: Any, meter: RequestMeter | None
) -> Generator[Any, Any, Any]:
    """Go on with a coroutine that already waits for something."""
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
    """Run a coroutine that has not begun."""
    try:
        awaited = coroutine.send(None) if meter is None else meter.step(coroutine, None)
    except StopIteration as finished:
        return finished.value
    return (yield from _continue(coroutine, awaited, meter))


async def _given(response: Any) -> Any:
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
        """Serve one request: its answer, or None if it will come later; MalformedRequest if it cannot be read."""
        header = parse_request_header(frame)
        claim = CLAIMS.get(header.api_key)
        if claim is None or not claim.oldest <= header.api_version <= claim.newest:
            if header.api_key != API_VERSIONS_KEY:
                raise MalformedRequest(f"API key {header.api_key} version {header.api_version} is not served")
            # Any version of ApiVersions gets an answer that the client can read: version 0, with the error and the table.
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
            answer, rest = connection.answer_later(holds_up=True), _given(response)
        except Exception:
            self._failed(connection, header)
            return ()
        else:
            answer, rest = connection.answer_later(holds_up=route.holds_up), _continue(coroutine, awaited, meter)
        serving = self._finish_later(connection, answer, route, header, rest, meter)
        self._start(answer, serving, ends_with_client=route.ends_with_client)
        return None

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        self._codec.close()

    def _start_large(self, connection: Connection, route: Route, header: RequestHeader, frame: memoryview) -> None:
        answer = connection.answer_later(holds_up=True)
        # The receive buffer is used again before the thread gets to it.
        serving = self._serve_large(connection, answer, route, header, bytes(frame))
        # A large Produce is appended in several steps: all of it, even if the client does not wait for the answer.
        self._start(answer, serving, ends_with_client=route.ends_with_client and route.key != produce.API_KEY)

    def _start(self, answer: Answer, serving: Coroutine[Any, Any, None], *, ends_with_client: bool) -> None:
        task = asyncio.get_running_loop().create_task(serving)
        if ends_with_client:
            answer.waiting = task
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _serve_large(
        self, connection: Connection, answer: Answer, route: Route, header: RequestHeader, frame: bytes
    ) -> None:
        try:
            request = await self._codec.run(route.decode_copy or route.decode, memoryview(frame), header)
        except MalformedRequest as error:
            connection.refuse(error)
            return
        meter = self._meter(connection, header, len(frame)) if self._services.quotas.is_active else None
        rest = _drive(self._handler(route, self._context(connection, header, meter), request), meter)
        await self._finish_later(connection, answer, route, header, rest, meter)

    def _context(self, connection: Connection, header: RequestHeader, meter: RequestMeter | None) -> RequestContext:
        self._services.traffic.requested(header.api_key)
        return RequestContext(self._services, header, connection.listener.name, connection.peer_host, connection, meter)

    def _meter(self, connection: Connection, header: RequestHeader, size: int) -> RequestMeter:
        meter = RequestMeter(self._services.quotas, _ANONYMOUS, header.client_id or "", header.api_key)
        if header.api_key == produce.API_KEY:
            # At once: a client that sends many requests before the first answer must not have them all served.
            connection.mute(meter.produced(size))
        return meter

    def _handler(self, route: Route, context: RequestContext, request: Any) -> Coroutine[Any, Any, Any]:
        if self._interceptor is not None:
            instead = self._interceptor.intercept(route, context, request)
            if instead is not None:
                return instead
        return route.handler(context, request)

    async def _finish_later(
        self,
        connection: Connection,
        answer: Answer,
        route: Route,
        header: RequestHeader,
        rest: Awaitable[Any],
        meter: RequestMeter | None,
    ) -> None:
        try:
            response = await rest
            if response is not None and route.is_large(response):
                pause_ms = self._pause_ms(connection, response, meter)
                body = await self._codec.run(route.encode, response, header, pause_ms)
                pieces = _framed(header, body)
            else:
                pieces = self._encoded(connection, route, header, response, meter)
        except Exception:
            self._failed(connection, header)
        else:
            connection.finish_answer(answer, pieces)

    def _encoded(
        self, connection: Connection, route: Route, header: RequestHeader, response: Any, meter: RequestMeter | None
    ) -> Sequence[Piece]:
        """The answer as a frame; nothing where the client wants none."""
        pause_ms = self._pause_ms(connection, response, meter)
        if response is None:
            return ()
        try:
            body = route.encode(response, header, pause_ms) if pause_ms else route.encode(response, header)
        except Exception:
            self._failed(connection, header)
            return ()
        return _framed(header, body)

    def _pause_ms(self, connection: Connection, response: Any, meter: RequestMeter | None) -> int:
        if meter is None:
            return 0
        pause_ms = meter.finish(is_answered=response is not None)
        # The answer carries the throttle time; if the client does not pause by itself, its next requests wait unread (KIP-219).
        connection.mute(pause_ms)
        return pause_ms

    def _failed(self, connection: Connection, header: RequestHeader) -> None:
        """A fault of ours, or a refusal that no answer can carry: the client is told by the end of its connection."""
        name = APIS[header.api_key].name
        error = sys.exception()
        if isinstance(error, ApiError):
            _logger.warning("%s from %s was refused without an answer: %s", name, connection.peer_host, error)
        else:
            _logger.exception("%s version %d failed; closing %s", name, header.api_version, connection.peer_host)
        connection.abort()
