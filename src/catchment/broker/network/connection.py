"""One client's connection: frames in, responses out, in the order of the requests.

Frames are cut from one reused buffer and passed on as views. Responses may become ready in any order; they are sent in the order
of the requests. While too many responses are pending, or the client reads too slowly, nothing more is read from it.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from catchment.broker.network.buffers import BufferPool, ReceiveBuffer
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import Piece

if TYPE_CHECKING:
    from catchment.broker.network.listeners import Listener

_logger = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")
_WRITE_HIGH_WATER_BYTES = 1024 * 1024
_READ_AHEAD_BYTES = 16 * 1024
_PIECES_OF_A_SMALL_RESPONSE = 2
"""A response with records has more pieces; it is sent at once, since it may be large."""


class PendingResponse:
    """A slot in the order of responses; `pieces` stays empty if the client expects none.

    While a response that `blocks_connection` is pending, no later request of its connection is served: a Fetch may return
    megabytes, and a client that sends a hundred at once must not make the broker hold them all.
    """

    __slots__ = ("blocks_connection", "pieces", "task")

    def __init__(self, *, blocks_connection: bool) -> None:
        self.pieces: Sequence[Piece] | None = None
        self.blocks_connection = blocks_connection
        self.task: asyncio.Task[None] | None = None
        """Cancelled when the connection is lost."""


class ConnectionLimits(NamedTuple):
    max_frame_bytes: int
    max_pending_responses: int
    send_buffer_bytes: int = -1
    """The socket's buffer; a negative size leaves it to the system."""
    receive_buffer_bytes: int = -1


class Connection(asyncio.BufferedProtocol):
    def __init__(self, listener: "Listener", pool: BufferPool, limits: ConnectionLimits) -> None:
        self.listener = listener
        self.peer_host = ""
        self.last_active_s = 0.0
        self.on_disconnect: dict[Hashable, Callable[[], None]] = {}
        """Callbacks for when the client disconnects or closes its side, by owner."""
        self._limits = limits
        self._received = ReceiveBuffer(pool)
        self._responses: deque[PendingResponse] = deque()
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        self._can_write = True
        self._has_eof = False
        self._blocks = 0
        self._has_unserved_frames = False
        self._is_flush_due = False
        self._unmute_timer: asyncio.TimerHandle | None = None
        self._ready: list[Piece] = []
        self._unsent_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER_BYTES)
        self._size_kernel_buffers(transport.get_extra_info("socket"))
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if peer else "unknown"
        if not self.listener.connected(self):
            self.abort()
        elif throttle_ms := self.listener.rejection_delay_ms(self.peer_host):
            # Closed at once, a client that connects too often would only reconnect at once.
            self._pause()
            asyncio.get_running_loop().call_later(throttle_ms / 1000, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._end_mute()
        for pending in self._responses:
            if pending.task is not None:
                pending.task.cancel()
        self._responses.clear()
        self._record_unsent(0)
        self.listener.disconnected(self)
        self._notify_disconnect()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._received.received(nbytes)
        self.last_active_s = self.listener.now_s()
        self._serve_frames()

    def eof_received(self) -> bool:
        """The client will send no more: respond to its requests, then close."""
        self._has_eof = True
        self._notify_disconnect()
        return self._close_if_done()

    def pause_writing(self) -> None:
        self._can_write = False
        self._record_unsent(self._transport.get_write_buffer_size() if self._transport else 0)
        self._pause()

    def resume_writing(self) -> None:
        self._can_write = True
        self._record_unsent(0)
        self._resume()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_half_closed(self) -> bool:
        """Whether the client has closed its side: it may still read responses, or be gone."""
        return self._has_eof

    @property
    def has_pending_requests(self) -> bool:
        return bool(self._responses) or self._unmute_timer is not None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def reject(self, error: MalformedRequest) -> None:
        """Close the connection: the boundaries of later requests are unknown."""
        _logger.warning("closing the connection of %s, which sent a malformed request: %s", self.peer_host, error)
        self.abort()

    def reserve_response(self, *, blocks_connection: bool) -> PendingResponse:
        """Reserve the slot of a response that is not ready yet."""
        pending = PendingResponse(blocks_connection=blocks_connection)
        self._blocks += blocks_connection
        self._responses.append(pending)
        return pending

    def complete_response(self, pending: PendingResponse, pieces: Sequence[Piece]) -> None:
        """Fill the slot of a response, and send what is ready.

        A send costs more than all other work on a small request. So responses that one event completes are sent together, such
        as those to requests that waited for one sync, and so are the responses to frames that arrived together.
        """
        pending.pieces = pieces
        self._blocks -= pending.blocks_connection
        self._flush_soon()

    def block(self) -> None:
        """Serve no later request until `unblock`: they must not overtake the current one."""
        self._blocks += 1

    def unblock(self) -> None:
        self._blocks -= 1
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def mute(self, throttle_ms: int) -> None:
        """Throttle: serve no further request for so long. A longer throttle time replaces a shorter one."""
        if throttle_ms <= 0 or self._transport is None:
            return
        loop = asyncio.get_running_loop()
        until_s = loop.time() + throttle_ms / 1000
        if self._unmute_timer is not None:
            if self._unmute_timer.when() >= until_s:
                return
            self._unmute_timer.cancel()
        else:
            self.listener.muted_changed(1)
        self._unmute_timer = loop.call_at(until_s, self._unmute)
        self._pause()

    def _unmute(self) -> None:
        self._end_mute()
        self._resume()

    def _end_mute(self) -> None:
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
            self._unmute_timer = None
            self.listener.muted_changed(-1)

    def _flush(self) -> None:
        self._is_flush_due = False
        responses = self._responses
        while responses and (pieces := responses[0].pieces) is not None:
            self._ready += pieces
            responses.popleft()
        self._send()
        if not self._is_reading:
            self._resume()
        elif self._has_unserved_frames and self._can_serve:
            self._serve_frames()
        if self._has_eof:
            self._close_if_done()

    def _send(self) -> None:
        if self._ready:
            ready, self._ready = self._ready, []
            if self._transport is not None and not self._transport.is_closing():
                self._transport.writelines(ready)

    def _size_kernel_buffers(self, socket_of_transport: socket.socket | None) -> None:
        for option, size in (
            (socket.SO_SNDBUF, self._limits.send_buffer_bytes),
            (socket.SO_RCVBUF, self._limits.receive_buffer_bytes),
        ):
            if size > 0 and socket_of_transport is not None:
                socket_of_transport.setsockopt(socket.SOL_SOCKET, option, size)

    def _serve_frames(self) -> None:
        """Serve the frames that have arrived, and send the responses that are ready."""
        received = self._received
        self._has_unserved_frames = False
        while received.available >= _LENGTH.size:
            (size,) = _LENGTH.unpack(received.view(0, _LENGTH.size))
            if not 0 <= size <= self._limits.max_frame_bytes:
                _logger.warning(
                    "closing the connection of %s, which sent a frame of %d bytes: socket.request.max.bytes is %d",
                    self.peer_host,
                    size,
                    self._limits.max_frame_bytes,
                )
                self.abort()
                return
            if received.available < _LENGTH.size + size:
                received.make_room(_LENGTH.size + size)
                break
            if not self._can_serve or len(self._responses) >= self._limits.max_pending_responses:
                # Behind a blocking response a few frames are read ahead: without reading, the broker would not notice that
                # the client has disconnected.
                self._has_unserved_frames = True
                if not self._blocks or received.available >= _READ_AHEAD_BYTES:
                    self._pause()
                break
            if not self._serve(received.view(_LENGTH.size, size)):
                return
            received.use(_LENGTH.size + size)
        self._send()

    def _serve(self, frame: memoryview) -> bool:
        """Serve one request; whether the connection is still open afterwards."""
        try:
            pieces = self.listener.router.dispatch(self, frame)
        except MalformedRequest as error:
            self.reject(error)
            return False
        if pieces:
            if self._responses:
                self.reserve_response(blocks_connection=False).pieces = pieces
            else:
                self._ready += pieces
                if len(pieces) > _PIECES_OF_A_SMALL_RESPONSE:
                    self._send()
        return self.is_open

    @property
    def _can_serve(self) -> bool:
        return self._can_write and not self._blocks and self._unmute_timer is None

    def _record_unsent(self, size: int) -> None:
        self.listener.unsent_changed(size - self._unsent_bytes)
        self._unsent_bytes = size

    def _pause(self) -> None:
        if self._is_reading and self._transport is not None:
            self._is_reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_reading or not self._can_serve:
            return
        if len(self._responses) > self._limits.max_pending_responses // 2:
            return
        self._is_reading = True
        # Frames that have already arrived come first; they may fill the queue again.
        self._serve_frames()
        if self._is_reading and self.is_open and self._transport is not None:
            self._transport.resume_reading()

    def _notify_disconnect(self) -> None:
        for callback in list(self.on_disconnect.values()):
            callback()
        self.on_disconnect.clear()

    def _close_if_done(self) -> bool:
        """Close unless responses are pending; whether the transport must stay open for them."""
        if self._responses:
            return True
        if self._transport is not None:
            self._transport.close()
        return False
