"""Brokers that a test plays for a reader, and their cluster."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pyarrow
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchRequest

from catchment.client.cluster import Cluster
from catchment.client.columns.encoding import encode
from catchment.client.errors import BrokerError, ClientError, Unreachable
from catchment.client.fetch.session import FetchLimits
from catchment.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, OffsetAt
from catchment.client.reader import Reader, Span
from catchment.client.topic_metadata import Leader, TopicPartition
from catchment.protocol.client import Response
from catchment.protocol.fetch import PartitionResponse, TopicResponse, encode_response

TOPIC_ID = UUID(int=1)
VERSION = 17


class PlayedBroker:
    """Responds to fetches with one record a partition, with sessions, or as scripted. It is its own connection."""

    name = "played:9092"

    def __init__(self, log_end: int) -> None:
        self.log_end = log_end
        self.high_watermark = log_end
        self.throttle_time_ms = 0
        self.error: Callable[[int], ErrorCode] = lambda partition: ErrorCode.none
        self.is_down = False
        self.is_silent = False
        self.strange_records = b""
        self.strange_responses = 0
        self.requests: list[FetchRequest] = []
        self._session: dict[int, int] = {}
        self._responses: deque[Response] = deque()
        self._readable, self._writable = socket.socketpair()

    def fileno(self) -> int:
        return self._readable.fileno()

    @property
    def has_decrypted(self) -> bool:
        return False

    def close(self) -> None:
        while self._responses:
            self._readable.recv(1)
            self._responses.popleft()
        self._session.clear()

    def shut(self) -> None:
        self._readable.close()
        self._writable.close()

    def send(self, request: FetchRequest) -> None:
        if self.is_down:
            raise Unreachable("the played broker is down")
        self.requests.append(request)
        if self.is_silent:
            return
        if request.session_epoch in (0, -1):
            self._session.clear()
        for topic in request.topics:
            self._session.update({one.partition: one.fetch_offset for one in topic.partitions})
        for forgotten in request.forgotten_topics_data:
            for partition in forgotten.partitions:
                self._session.pop(partition, None)
        responses = [self._partition(partition, offset) for partition, offset in self._session.items()]
        pieces = encode_response(
            [TopicResponse(TOPIC_ID, responses)], VERSION, session_id=9, throttle_time_ms=self.throttle_time_ms
        )
        body = b"".join(pieces)
        if self.strange_responses:
            self.strange_responses -= 1
            body = body[:-8]
        self._responses.append(Response(0, 1, VERSION, body))
        # The reader waits for the descriptor before it receives.
        self._writable.send(b"x")

    def receive(self, timeout_s: float | None = None) -> Response:
        if self.is_down:
            raise Unreachable("the played broker is down")
        self._readable.recv(1)
        return self._responses.popleft()

    def _partition(self, partition: int, offset: int) -> PartitionResponse:
        code = self.error(partition)
        if code is not ErrorCode.none:
            return PartitionResponse(partition, code)
        records = b""
        if self.strange_records:
            return PartitionResponse(partition, 0, 1, 1, 0, [], -1, self.strange_records)
        if offset < self.log_end and not self.throttle_time_ms:
            (batch,) = encode(pyarrow.record_batch({"value": [b"%d" % offset]}), timestamp_ms=0)
            records = offset.to_bytes(8, "big") + batch.data[8:]
        return PartitionResponse(partition, 0, self.high_watermark, self.high_watermark, 0, [], -1, records)


class PlayedCluster:
    """Two brokers, and the leaders of partitions in their metadata."""

    def __init__(self, *brokers: PlayedBroker) -> None:
        self.brokers = brokers
        self.leaders: dict[int, Leader] = {}
        self.refreshed = 0
        self.local_start = 0
        self.failing_looks: list[ClientError] = []
        self.on_refresh: Callable[[], None] = lambda: None

    def known_leader(self, topic: str, partition: int) -> Leader:
        if partition not in self.leaders:
            raise BrokerError(ErrorCode.leader_not_available, f"{topic}-{partition} has no leader")
        return self.leaders[partition]

    def topic_id(self, topic: str) -> UUID:
        return TOPIC_ID

    def connection(self, broker_id: int) -> PlayedBroker:
        if self.brokers[broker_id].is_down:
            raise Unreachable(f"broker {broker_id} is down")
        return self.brokers[broker_id]

    def list_offsets(self, topic_partitions: list[TopicPartition], when: int) -> dict[TopicPartition, OffsetAt]:
        if self.failing_looks:
            raise self.failing_looks.pop()
        offset = {EARLIEST: 0, EARLIEST_LOCAL: self.local_start, LATEST: self.brokers[0].log_end}[when]
        return {topic_partition: OffsetAt(offset, -1, -1) for topic_partition in topic_partitions}

    def refresh(self, topics: list[str]) -> None:
        self.refreshed += 1
        self.on_refresh()


def reader_of(played: PlayedCluster, *spans: Span, **options: Any) -> Reader:
    return Reader(cast("Cluster", played), spans, columns=["value"], limits=FetchLimits(max_wait_ms=1), **options)
