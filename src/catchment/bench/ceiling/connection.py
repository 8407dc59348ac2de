"""One connection to the ceiling: frames from one reusable buffer, responses in the order of the requests."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import cast

from kio.schema.fetch.v16.request import FetchRequest

from catchment.bench.ceiling import hot
from catchment.bench.ceiling.cold import API_VERSIONS, FETCH, PRODUCE, WITHOUT_TAGS, ColdAnswers, api_versions
from catchment.bench.ceiling.memory import RememberedPartition, RememberedTopics

_HEAD = struct.Struct(">ihhih")
_ANSWER = struct.Struct(">ii")
_BUFFER_BYTES = 4 << 20


class Connection(asyncio.BufferedProtocol):
    """Receives into one buffer and responds from the callback; only a Fetch without records waits."""

    def __init__(self, topics: RememberedTopics, cold: ColdAnswers) -> None:
        self._topics = topics
        self._cold = cold
        self._buffer = bytearray(_BUFFER_BYTES)
        self._begin = self._end = 0
        self._waiting = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's, though they have the same methods.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """The free end of the buffer. An incomplete frame is moved to the front if it would not fit otherwise."""
        unread = self._end - self._begin
        needed = 4
        if unread >= 4:
            needed += int.from_bytes(self._buffer[self._begin : self._begin + 4], "big")
        if self._begin + max(needed, unread + 1) > len(self._buffer):
            larger = bytearray(max(len(self._buffer), needed, unread + 1))
            larger[:unread] = memoryview(self._buffer)[self._begin : self._end]
            self._buffer, self._begin, self._end = larger, 0, unread
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self._answer_all()

    def _answer_all(self) -> None:
        while not self._waiting and self._end - self._begin >= 4:
            size = int.from_bytes(self._buffer[self._begin : self._begin + 4], "big")
            if self._end - self._begin < size + 4:
                return
            frame = memoryview(self._buffer)[self._begin : self._begin + size + 4].toreadonly()
            self._begin += size + 4
            if self._begin == self._end:
                self._begin = self._end = 0
            self._answer(frame)

    def _answer(self, frame: memoryview) -> None:
        _, key, version, correlation_id, client_id_length = _HEAD.unpack_from(frame)
        tags = b"" if key in WITHOUT_TAGS else b"\x00"
        position = _HEAD.size + max(0, client_id_length) + len(tags)
        if key == PRODUCE:
            acks, found = hot.batches(frame, position)
            answer = hot.produce(self._topics, found)
            if acks != 0:
                self._send(correlation_id, (b"\x00", answer))
        elif key == FETCH:
            self._fetch(correlation_id, hot.read_fetch(frame, position))
        elif key == API_VERSIONS:
            self._send(correlation_id, (api_versions(version),))
        else:
            self._send(correlation_id, (tags, self._cold.by_key[key](frame, position)))

    def _fetch(self, correlation_id: int, request: FetchRequest) -> None:
        pieces, size = hot.fetch(self._topics, request)
        wait_seconds = request.max_wait.total_seconds()
        if size > 0 or wait_seconds == 0:
            self._send(correlation_id, (b"\x00", *pieces))
            return
        self._waiting = True
        watched = self._partitions(request)

        def wake() -> None:
            timer.cancel()
            for partition in watched:
                partition.waiters.remove(wake)
            self._waiting = False
            self._send(correlation_id, (b"\x00", *hot.fetch(self._topics, request)[0]))
            self._answer_all()

        timer = asyncio.get_running_loop().call_later(wait_seconds, wake)
        for partition in watched:
            partition.waiters.append(wake)

    def _partitions(self, request: FetchRequest) -> list[RememberedPartition]:
        return [
            self._topics.by_id[topic.topic_id.bytes][wanted.partition]
            for topic in request.topics
            if topic.topic_id is not None
            for wanted in topic.partitions
        ]

    def _send(self, correlation_id: int, pieces: Sequence[bytes | memoryview]) -> None:
        if self._transport is not None:
            self._transport.writelines([_ANSWER.pack(4 + sum(map(len, pieces)), correlation_id), *pieces])
