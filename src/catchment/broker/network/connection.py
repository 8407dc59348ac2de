"""One client's connection: frames in, answers out, in the order of the requests.

Frames are cut from one reused buffer and handed on as views. Answers may become ready in any order; they leave in the order
in which the requests came. While too many answers wait, or the client reads too slowly, nothing more is read from it.
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
_PIECES_OF_A_SMALL_ANSWER = 2
"""An answer with records has more pieces; it is sent at once, since it may be large."""


class Answer:
    """The place of one answer in the order; `pieces` is empty where the client wants none.

    While an answer that `holds_up` others is not there, no later request of its connection is served: a Fetch may bring
    megabytes, and a client that asks for a hundred at once must not make the broker hold them all.
    """

    __slots__ = ("holds_up", "pieces", "waiting")

    def __init__(self, *, holds_up: bool) -> None:
        self.pieces: Sequence[Piece] | None = None
        self.holds_up = holds_up
        self.waiting: asyncio.Task[None] | None = None
        """What to cancel when the connection is lost."""


class ConnectionLimits(NamedTuple):
    max_frame_bytes: int
    max_waiting_answers: int
    send_buffer_bytes: int = -1
    """The kernel's; a negative size leaves it to the system."""
    receive_buffer_bytes: int = -1


class Connection(asyncio.BufferedProtocol):
    def __init__(self, listener: "Listener", pool: BufferPool, limits: ConnectionLimits) -> None:
        self.listener = listener
        self.peer_host = ""
        self.last_active_s = 0.0
        self.when_gone: dict[Hashable, Callable[[], None]] = {}
        """What to do when the client will ask no more, by whose wish it is."""
        self._limits = limits
        self._received = ReceiveBuffer(pool)
        self._answers: deque[Answer] = deque()
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        self._may_write = True
        self._is_ending = False
        self._holds = 0
        self._has_unserved = False
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
        elif pause_ms := self.listener.refusal_pause_ms(self.peer_host):
            # A client that connects too often would only come again at once.
            self._pause()
            asyncio.get_running_loop().call_later(pause_ms / 1000, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._end_mute()
        for answer in self._answers:
            if answer.waiting is not None:
                answer.waiting.cancel()
        self._answers.clear()
        self._note_unsent(0)
        self.listener.disconnected(self)
        self._client_has_gone()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._received.received(nbytes)
        self.last_active_s = self.listener.now_s()
        self._take_frames()

    def eof_received(self) -> bool:
        """The client will send no more: answer what it asked, then close."""
        self._is_ending = True
        self._client_has_gone()
        return self._close_if_done()

    def pause_writing(self) -> None:
        self._may_write = False
        self._note_unsent(self._transport.get_write_buffer_size() if self._transport else 0)
        self._pause()

    def resume_writing(self) -> None:
        self._may_write = True
        self._note_unsent(0)
        self._resume()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def asks_no_more(self) -> bool:
        """Whether the client has closed its side: it may still read answers, or be gone."""
        return self._is_ending

    @property
    def has_requests_waiting(self) -> bool:
        return bool(self._answers) or self._unmute_timer is not None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, error: MalformedRequest) -> None:
        """End the connection: where one request ends and the next begins is not known any more."""
        _logger.warning("%s sent a request that cannot be read: %s", self.peer_host, error)
        self.abort()

    def answer_later(self, *, holds_up: bool) -> Answer:
        """Keep a place in the order for an answer that is not there yet."""
        answer = Answer(holds_up=holds_up)
        self._holds += holds_up
        self._answers.append(answer)
        return answer

    def finish_answer(self, answer: Answer, pieces: Sequence[Piece]) -> None:
        """Fill an answer's place, and send what is ready.

        A send costs more than all the work on a small request. So answers that one event has set free leave together, such
        as those to requests that waited for one sync; and so do the answers to frames that arrived together.
        """
        answer.pieces = pieces
        self._holds -= answer.holds_up
        self._flush_soon()

    def hold_up(self) -> None:
        """Serve no later request until `go_on`: they must not overtake the one at work."""
        self._holds += 1

    def go_on(self) -> None:
        self._holds -= 1
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def mute(self, pause_ms: int) -> None:
        """Serve no further request for so long. A longer pause replaces a shorter one."""
        if pause_ms <= 0 or self._transport is None:
            return
        loop = asyncio.get_running_loop()
        until_s = loop.time() + pause_ms / 1000
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
        answers = self._answers
        while answers and (pieces := answers[0].pieces) is not None:
            self._ready += pieces
            answers.popleft()
        self._send()
        if not self._is_reading:
            self._resume()
        elif self._has_unserved and self._may_serve:
            self._take_frames()
        if self._is_ending:
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

    def _take_frames(self) -> None:
        """Serve the frames that have arrived, and send at once what can be answered at once."""
        received = self._received
        self._has_unserved = False
        while received.available >= _LENGTH.size:
            (size,) = _LENGTH.unpack(received.view(0, _LENGTH.size))
            if not 0 <= size <= self._limits.max_frame_bytes:
                _logger.warning(
                    "%s sent a frame of %d bytes; at most %d", self.peer_host, size, self._limits.max_frame_bytes
                )
                self.abort()
                return
            if received.available < _LENGTH.size + size:
                received.make_room(_LENGTH.size + size)
                break
            if not self._may_serve or len(self._answers) >= self._limits.max_waiting_answers:
                # Behind an answer that holds them up, a few frames are read ahead: without reading, the broker would not notice
                # that the client has gone.
                self._has_unserved = True
                if not self._holds or received.available >= _READ_AHEAD_BYTES:
                    self._pause()
                break
            if not self._serve(received.view(_LENGTH.size, size)):
                return
            received.use(_LENGTH.size + size)
        self._send()

    def _serve(self, frame: memoryview) -> bool:
        """Whether the connection is still there after the request."""
        try:
            pieces = self.listener.router.dispatch(self, frame)
        except MalformedRequest as error:
            self.refuse(error)
            return False
        if pieces:
            if self._answers:
                self.answer_later(holds_up=False).pieces = pieces
            else:
                self._ready += pieces
                if len(pieces) > _PIECES_OF_A_SMALL_ANSWER:
                    self._send()
        return self.is_open

    @property
    def _may_serve(self) -> bool:
        return self._may_write and not self._holds and self._unmute_timer is None

    def _note_unsent(self, size: int) -> None:
        self.listener.unsent_changed(size - self._unsent_bytes)
        self._unsent_bytes = size

    def _pause(self) -> None:
        if self._is_reading and self._transport is not None:
            self._is_reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_reading or not self._may_serve:
            return
        if len(self._answers) > self._limits.max_waiting_answers // 2:
            return
        self._is_reading = True
        # Frames that are here already go first; they may fill the queue again.
        self._take_frames()
        if self._is_reading and self.is_open and self._transport is not None:
            self._transport.resume_reading()

    def _client_has_gone(self) -> None:
        for callback in list(self.when_gone.values()):
            callback()
        self.when_gone.clear()

    def _close_if_done(self) -> bool:
        """Whether the transport must stay open for answers that are still to come."""
        if self._answers:
            return True
        if self._transport is not None:
            self._transport.close()
        return False
