"""Fetches from one broker: over its own connection, in a fetch session, with at most one request in flight."""

from __future__ import annotations

import time
from struct import Struct
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.client.errors import ClientError, Unreachable
from catchment.client.fetch.session import FetchLimits, FetchSession, decode_response
from catchment.client.network.connection import Connection
from catchment.client.topic_metadata import TopicPartition
from catchment.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.fetch import PartitionResponse
from catchment.protocol.wire import Piece

_OFFSET_AND_LENGTH: Final = Struct(">qi")
_LAST_OFFSET_DELTA: Final = Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23
_MAGIC_POSITION: Final = 16
_CLOSING_TIMEOUT_S: Final = 1.0


class Fetched(NamedTuple):
    """The batches of one partition in a response, not yet decoded."""

    topic_partition: TopicPartition
    records: memoryview
    aborted: list[tuple[int, int]]
    start_offset: int
    next_offset: int


class BrokerFetcher:
    """Fetches the partitions that one broker leads."""

    def __init__(
        self, connection: Connection, limits: FetchLimits, *, read_committed: bool, keeps_session: bool = True
    ) -> None:
        self.connection = connection
        self.session = FetchSession(limits, read_committed=read_committed, is_kept=keeps_session)
        self.is_waiting = False
        """Whether a request is in flight."""
        self.asked_at_s = 0.0
        self.empty_responses = 0
        """The number of consecutive responses without records and errors, not counting those of a throttled client."""
        self.readable_to: dict[TopicPartition, int] = {}
        """Each partition's high watermark, or its last stable offset for committed reads, in the last response."""
        self._read_committed = read_committed

    def send(self) -> None:
        """Send a request for the wanted partitions, unless there are none or a request is in flight."""
        if not self.is_waiting and len(self.session):
            self.connection.send(self.session.request())
            self.is_waiting = True
            self.asked_at_s = time.monotonic()

    def receive(self) -> list[tuple[TopicPartition, PartitionResponse]]:
        """Receive the response."""
        received = self.connection.receive()
        self.is_waiting = False
        try:
            response = decode_response(received.body, received.api_version)
        except MalformedRequest as error:
            raise Unreachable(f"invalid response from {self.connection.name}: {error}") from error
        self.session.accept(response)
        responses = list(self.session.wanted_partitions(response))
        for topic_partition, one in responses:
            self.readable_to[topic_partition] = one.last_stable_offset if self._read_committed else one.high_watermark
        # A broker that throttles a client responds with nothing at all (KIP-219).
        is_held_back = response.throttle_time_ms > 0 or response.error_code != ErrorCode.none
        if any(len(one.records) or one.error_code for _, one in responses):
            self.empty_responses = 0
        elif not is_held_back:
            self.empty_responses += 1
        return responses

    def take(self, topic_partition: TopicPartition, response: PartitionResponse, position: int) -> Fetched | None:
        """The records in the response of a partition, which the session then continues after; None without a whole batch."""
        next_offset = _end_of(response.records)
        if next_offset is None and _is_strange(response.records):
            # The decoder reports what is wrong with it.
            return Fetched(topic_partition, memoryview(response.records), [], position, position + 1)
        if next_offset is None or next_offset <= position:
            return None
        self.session.move(topic_partition, next_offset)
        return Fetched(topic_partition, memoryview(response.records), response.aborted or [], position, next_offset)

    def close(self) -> None:
        """Let the broker drop the session, if it responds, and close the connection."""
        try:
            if self.session.is_open and not self.is_waiting:
                self.connection.send(self.session.closing_request())
                self.connection.receive(_CLOSING_TIMEOUT_S)
        except ClientError:
            # The broker will drop the unused session by itself.
            pass
        finally:
            self.connection.close()


def _end_of(records: Piece) -> int | None:
    """The offset after the last whole batch, read from the headers alone; None if there is none."""
    size = len(records)
    position = 0
    last = -1
    while position + HEADER_SIZE <= size:
        _, length = _OFFSET_AND_LENGTH.unpack_from(records, position)
        end = position + LOG_OVERHEAD + length
        if length < HEADER_SIZE - LOG_OVERHEAD or end > size:
            break
        last, position = position, end
    if last < 0:
        return None
    base_offset, _ = _OFFSET_AND_LENGTH.unpack_from(records, last)
    (last_offset_delta,) = _LAST_OFFSET_DELTA.unpack_from(records, last + _LAST_OFFSET_DELTA_POSITION)
    return int(base_offset) + int(last_offset_delta) + 1


def _is_strange(records: Piece) -> bool:
    """Whether the data starts with something other than a version-2 batch, which may be incomplete."""
    if len(records) < HEADER_SIZE:
        return False
    _, length = _OFFSET_AND_LENGTH.unpack_from(records, 0)
    return records[_MAGIC_POSITION] != MAGIC or bool(length < HEADER_SIZE - LOG_OVERHEAD)
