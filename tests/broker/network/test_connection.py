"""A connection driven through a mock transport: framing, order, back-pressure."""

import asyncio
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import until

from catchment.broker.network.buffers import LARGE_BYTES, SMALL_BYTES, BufferPool
from catchment.broker.network.connection import Connection, ConnectionLimits, PendingResponse
from catchment.broker.network.listeners import Listener
from catchment.protocol.errors import MalformedRequest

MAX_FRAME_BYTES = 4 * LARGE_BYTES
LIMITS = ConnectionLimits(MAX_FRAME_BYTES, max_pending_responses=256)


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.sends = 0
        self.socket: socket.socket | None = None
        self.is_reading_now = True
        self.is_closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5), "socket": self.socket}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 5_000_000

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.sends += 1
        for piece in list_of_data:
            self.sent += piece

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class FakeListener:
    """A listener whose router keeps the frames, and echoes those that start with `e` at once.

    Those that start with `em` also mute their connection for a moment.
    """

    name = "PLAINTEXT"

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.answers: list[PendingResponse] = []
        self.unsent = 0
        self.accepts = True
        self.refusal_ms = 0
        self.muted = 0

    @property
    def router(self) -> "FakeListener":
        return self

    def dispatch(self, connection: Connection, frame: memoryview) -> Sequence[bytes] | None:
        body = bytes(frame)
        if body.startswith(b"!"):
            raise MalformedRequest("nonsense")
        self.frames.append(body)
        if body.startswith(b"em"):
            connection.mute(50)
        if body.startswith(b"e"):
            return (body,)
        self.answers.append(connection.reserve_response(blocks_connection=body.startswith(b"h")))
        return None

    def connected(self, connection: Connection) -> bool:
        return self.accepts

    def disconnected(self, connection: Connection) -> None: ...

    def now_s(self) -> float:
        return 1.0

    def unsent_changed(self, difference: int) -> None:
        self.unsent += difference

    def rejection_delay_ms(self, host: str) -> int:
        return self.refusal_ms

    def muted_changed(self, difference: int) -> None:
        self.muted += difference


def _connect(listener: FakeListener, transport: FakeTransport, limits: ConnectionLimits = LIMITS) -> Connection:
    # It has every method of a listener that a connection uses.
    connection = Connection(cast("Listener", listener), BufferPool(), limits)
    connection.connection_made(transport)
    return connection


def _open() -> tuple[Connection, FakeListener, FakeTransport]:
    listener, transport = FakeListener(), FakeTransport()
    return _connect(listener, transport), listener, transport


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def _finish(connection: Connection, answer: PendingResponse, pieces: Sequence[bytes]) -> None:
    """Complete a response, and let the loop send what is ready."""
    connection.complete_response(answer, pieces)
    await asyncio.sleep(0)


def _feed(connection: Connection, data: bytes, chunk_sizes: Iterable[int] = ()) -> None:
    sizes = iter(chunk_sizes)
    position = 0
    while position < len(data):
        space = connection.get_buffer(-1)
        assert len(space) > 0
        size = min(len(space), next(sizes, len(data)), len(data) - position)
        space[:size] = data[position : position + size]
        connection.buffer_updated(size)
        position += size


@given(
    st.lists(st.integers(0, 3 * SMALL_BYTES) | st.integers(0, 20), min_size=1, max_size=8),
    st.lists(st.integers(1, 2 * SMALL_BYTES), max_size=50),
)
def test_frames_arrive_whole_however_they_are_cut(sizes: list[int], chunks: list[int]) -> None:
    connection, listener, transport = _open()
    bodies = [b"e" + bytes([number]) * size for number, size in enumerate(sizes)]
    _feed(connection, b"".join(map(_frame, bodies)), chunks)
    assert listener.frames == bodies
    assert transport.sent == b"".join(bodies)


def test_a_frame_larger_than_any_pooled_buffer_arrives_whole() -> None:
    connection, listener, _ = _open()
    bodies = [b"e" + b"x" * (LARGE_BYTES + 1), b"e small", b"e" + b"y" * (MAX_FRAME_BYTES - 1)]
    _feed(connection, b"".join(map(_frame, bodies)), [100_000] * 1000)
    assert listener.frames == bodies


def test_an_announced_length_allocates_nothing_before_the_bytes_arrive() -> None:
    connection, _, _ = _open()
    _feed(connection, struct.pack(">i", MAX_FRAME_BYTES) + b"few")
    assert len(connection.get_buffer(-1)) <= LARGE_BYTES


@pytest.mark.parametrize("length", [-1, MAX_FRAME_BYTES + 1, (1 << 31) - 1, -(1 << 31)])
def test_a_frame_out_of_bounds_ends_the_connection(length: int) -> None:
    connection, listener, transport = _open()
    _feed(connection, struct.pack(">i", length))
    assert transport.is_closed
    assert listener.frames == []


def test_an_unreadable_request_ends_the_connection_and_nothing_after_it_is_served() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"!") + _frame(b"e next"))
    assert transport.is_closed
    assert listener.frames == []


async def test_responses_are_sent_in_the_order_of_the_requests() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"first") + _frame(b"e second") + _frame(b"third") + _frame(b"e fourth"))
    assert transport.sent == b""
    first, third = listener.answers
    await _finish(connection, third, (b"third",))
    assert transport.sent == b""
    await _finish(connection, first, (b"first",))
    assert transport.sent == b"firste secondthirde fourth"


async def test_an_empty_response_delays_no_other() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"silent") + _frame(b"e loud"))
    await _finish(connection, listener.answers[0], ())
    assert transport.sent == b"e loud"


async def test_requests_behind_a_blocking_one_wait_for_it() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"h") + _frame(b"e later"))
    assert listener.frames == [b"h"]
    await _finish(connection, listener.answers[0], (b"h",))
    assert listener.frames == [b"h", b"e later"]
    assert transport.is_reading_now
    assert transport.sent == b"he later"


async def test_little_is_read_ahead_of_a_blocking_response_and_the_end_is_noticed() -> None:
    connection, listener, transport = _open()
    gone = asyncio.Event()
    connection.on_disconnect[listener] = gone.set
    _feed(connection, _frame(b"h") + _frame(b"e later"))
    assert transport.is_reading_now
    assert connection.eof_received() is True
    assert gone.is_set()
    await _finish(connection, listener.answers[0], (b"h",))
    assert transport.sent == b"he later"
    assert transport.is_closed
    connection, listener, transport = _open()
    _feed(connection, _frame(b"h") + _frame(b"e" * SMALL_BYTES))
    assert not transport.is_reading_now
    await _finish(connection, listener.answers[0], (b"h",))
    assert (len(listener.frames), transport.is_reading_now) == (2, True)


async def test_pending_requests_are_cancelled_with_the_connection_and_not_by_a_half_close() -> None:
    connection, listener, _ = _open()
    _feed(connection, _frame(b"waits") + _frame(b"works"))
    waiting, working = (asyncio.create_task(asyncio.sleep(60)) for _ in range(2))
    listener.answers[0].task = waiting
    assert connection.eof_received() is True
    await asyncio.sleep(0)
    assert not waiting.cancelling()
    connection.connection_lost(None)
    assert (waiting.cancelling(), working.cancelling()) == (1, 0)
    working.cancel()


async def test_reading_stops_while_responses_pile_up_and_resumes_when_they_are_fewer() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"w") * 300)
    assert len(listener.frames) == 256
    assert not transport.is_reading_now
    for answer in listener.answers[:200]:
        await _finish(connection, answer, (b"a",))
    assert len(listener.frames) == 300
    assert transport.is_reading_now


def test_reading_stops_while_the_client_does_not_read() -> None:
    connection, listener, transport = _open()
    connection.pause_writing()
    assert listener.unsent == 5_000_000
    _feed(connection, _frame(b"e"))
    assert listener.frames == []
    assert not transport.is_reading_now
    connection.resume_writing()
    assert listener.frames == [b"e"]
    assert listener.unsent == 0
    assert transport.is_reading_now


async def test_requests_before_the_end_get_their_responses_before_the_close() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"last"))
    assert connection.eof_received() is True
    assert not transport.is_closed
    await _finish(connection, listener.answers[0], (b"answer",))
    assert transport.sent == b"answer"
    assert transport.is_closed


async def test_a_response_for_a_disconnected_client_is_dropped() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"slow"))
    connection.pause_writing()
    connection.connection_lost(None)
    await _finish(connection, listener.answers[0], (b"answer",))
    assert transport.sent == b""
    assert listener.unsent == 0


def test_a_rejected_connection_is_closed_at_once() -> None:
    listener, transport = FakeListener(), FakeTransport()
    listener.accepts = False
    _connect(listener, transport)
    assert transport.is_closed


async def test_responses_that_become_ready_together_are_sent_together() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"first") + _frame(b"second"))
    for answer in listener.answers:
        connection.complete_response(answer, (b"a",))
    assert transport.sends == 0
    await asyncio.sleep(0)
    assert transport.sends == 1
    _feed(connection, _frame(b"e1") + _frame(b"e2") + _frame(b"e3"))
    assert transport.sends == 2
    assert transport.sent == b"aae1e2e3"


def test_a_flood_of_small_requests_is_served_without_deep_recursion() -> None:
    connection, listener, transport = _open()
    _feed(connection, _frame(b"e" + b"x" * 1_900_000) + _frame(b"e") * 200_000)
    assert len(listener.frames) == 200_001
    assert transport.is_reading_now


def test_kernel_buffers_take_the_size_that_was_set_and_keep_the_systems_otherwise() -> None:
    listener, transport = FakeListener(), FakeTransport()
    with socket.socket() as kernel:
        transport.socket = kernel
        systems_own = kernel.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        limits = LIMITS._replace(send_buffer_bytes=20_000)
        _connect(listener, transport, limits)
        # Linux doubles what it is asked for.
        assert kernel.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 40_000
        assert kernel.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == systems_own


async def test_a_muted_connection_gets_its_response_and_serves_no_more_until_it_is_unmuted() -> None:
    connection, listener, transport = _open()
    muted_at_s = asyncio.get_running_loop().time()
    _feed(connection, _frame(b"em1") + _frame(b"e2"))
    assert transport.sent == b"em1"
    assert not transport.is_reading_now
    assert (listener.muted, connection.has_pending_requests) == (1, True)
    await until(lambda: len(listener.frames) == 2)
    assert asyncio.get_running_loop().time() - muted_at_s >= 0.05
    assert transport.sent == b"em1e2"
    assert transport.is_reading_now
    assert (listener.muted, connection.has_pending_requests) == (0, False)


async def test_a_shorter_throttle_time_does_not_end_a_longer_one() -> None:
    connection, listener, _ = _open()
    muted_at_s = asyncio.get_running_loop().time()
    connection.mute(60)
    connection.mute(1)
    connection.mute(0)
    assert listener.muted == 1
    await until(lambda: listener.muted == 0)
    assert asyncio.get_running_loop().time() - muted_at_s >= 0.06


async def test_nothing_is_served_after_a_muted_client_has_disconnected() -> None:
    connection, listener, _ = _open()
    _feed(connection, _frame(b"em1") + _frame(b"e2"))
    connection.connection_lost(None)
    assert listener.muted == 0
    assert listener.frames == [b"em1"]


async def test_a_client_that_connects_too_often_is_not_read_and_closed_after_a_delay() -> None:
    listener, transport = FakeListener(), FakeTransport()
    listener.refusal_ms = 20
    _connect(listener, transport)
    assert not transport.is_reading_now
    assert not transport.is_closed
    await until(lambda: transport.is_closed)
