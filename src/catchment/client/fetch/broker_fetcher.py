"""One broker as a reader sees it: a connection of its own, a fetch session, and at most one request under way."""

from __future__ import annotations

import time
from struct import Struct
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.client.errors import ClientError, Unreachable
from catchment.client.fetch.session import FetchLimits, FetchSession, decode_answer
from catchment.client.network.connection import Connection
from catchment.client.topic_metadata import TopicPartition
from catchment.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.fetch import PartitionAnswer
from catchment.protocol.wire import Piece

_OFFSET_AND_LENGTH: Final = Struct(">qi")
_LAST_OFFSET_DELTA: Final = Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23
_MAGIC_POSITION: Final = 16
_CLOSING_TIMEOUT_S: Final = 1.0


class Fetched(NamedTuple):
    """The batches of one partition in an answer, not yet decoded."""

    topic_partition: TopicPartition
    records: memoryview
    aborted: list[tuple[int, int]]
    start_offset: int
    next_offset: int


class BrokerFetcher:
    """What is read from one broker."""

    def __init__(
        self, connection: Connection, limits: FetchLimits, *, read_committed: bool, keeps_session: bool = True
    ) -> None:
        self.connection = connection
        self.session = FetchSession(limits, read_committed=read_committed, is_kept=keeps_session)
        self.is_waiting = False
        """Whether a request is under way."""
        self.asked_at_s = 0.0
        self.empty_answers = 0
        """How many answers in a row brought no records and no errors, though the broker did not hold records back."""
        self.readable_to: dict[TopicPartition, int] = {}
        """Up to which offset each partition could be read when it was last told: its high watermark, or what is stable."""
        self._read_committed = read_committed

    def send(self) -> None:
        """Ask for what is wanted, unless that is nothing or an answer is still to come."""
        if not self.is_waiting and len(self.session):
            self.connection.send(self.session.request())
            self.is_waiting = True
            self.asked_at_s = time.monotonic()

    def receive(self) -> list[tuple[TopicPartition, PartitionAnswer]]:
        """Take the answer that is there."""
        received = self.connection.receive()
        self.is_waiting = False
        try:
            answer = decode_answer(received.body, received.api_version)
        except MalformedRequest as error:
            raise Unreachable(f"no answer from {self.connection.name}: {error}") from error
        self.session.accept(answer)
        answers = list(self.session.answers(answer))
        for topic_partition, one in answers:
            self.readable_to[topic_partition] = one.last_stable_offset if self._read_committed else one.high_watermark
        # A broker that holds a client back answers with nothing at all (KIP-219).
        is_held_back = answer.throttle_time_ms > 0 or answer.error_code != ErrorCode.none
        if any(len(one.records) or one.error_code for _, one in answers):
            self.empty_answers = 0
        elif not is_held_back:
            self.empty_answers += 1
        return answers

    def take(self, topic_partition: TopicPartition, answer: PartitionAnswer, position: int) -> Fetched | None:
        """The records of a partition's answer, and the session moved behind them; None if it has no whole batch."""
        next_offset = _end_of(answer.records)
        if next_offset is None and _is_strange(answer.records):
            # The decoder knows what is wrong with it, and says so.
            return Fetched(topic_partition, memoryview(answer.records), [], position, position + 1)
        if next_offset is None or next_offset <= position:
            return None
        self.session.move(topic_partition, next_offset)
        return Fetched(topic_partition, memoryview(answer.records), answer.aborted or [], position, next_offset)

    def close(self) -> None:
        """Let the broker forget the session, if it listens, and close the connection."""
        try:
            if self.session.is_open and not self.is_waiting:
                self.connection.send(self.session.closing_request())
                self.connection.receive(_CLOSING_TIMEOUT_S)
        except ClientError:
            # The broker drops sessions that nobody uses; there is nothing to do about this one.
            pass
        finally:
            self.connection.close()


def _end_of(records: Piece) -> int | None:
    """The offset behind the last whole batch, read from headers alone; None if there is none."""
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
    """Whether this begins with something else than a batch of today's format, of which perhaps only a part has come."""
    if len(records) < HEADER_SIZE:
        return False
    _, length = _OFFSET_AND_LENGTH.unpack_from(records, 0)
    return records[_MAGIC_POSITION] != MAGIC or bool(length < HEADER_SIZE - LOG_OVERHEAD)
