"""The partitions that are fetched from one broker, as a fetch session (KIP-227): requests carry only what changed.

A single partition is fetched without a session, because brokers keep a limited number of them. This module does no I/O: a
session builds the next request from the wanted partitions, and takes the response to it. The records of a response are
views of the received body: kio would copy each partition's records once more, and they are nearly all of what is received.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchPartition, FetchRequest
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from catchment.client.topic_metadata import TopicPartition
from catchment.protocol.adapters.fetch import FetchTopic, ForgottenTopic
from catchment.protocol.fetch import (
    FIRST_FLEXIBLE,
    FIRST_WITH_TOPIC_IDS,
    READ_COMMITTED,
    PartitionResponse,
    TopicResponse,
)
from catchment.protocol.produce import TopicKey
from catchment.protocol.wire import WireReader

_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_READ_REPLICA: Final = 11

_ERROR_AND_SESSION: Final = Struct(">hi")
_PARTITION: Final = Struct(">ihqq")
_TRANSACTION: Final = Struct(">qq")


class FetchResponse(NamedTuple):
    """A broker's response to a Fetch request."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    """The session to continue; 0 if the broker keeps none."""
    topics: list[TopicResponse]


def decode_response(body: bytes | memoryview, version: int) -> FetchResponse:
    """Decode a response body at this version. Raises MalformedRequest if it is malformed."""
    reader = WireReader(memoryview(body), 0, flexible=version >= FIRST_FLEXIBLE)
    throttle_time_ms = reader.i32()
    error_code, session_id = reader.unpack(_ERROR_AND_SESSION) if version >= _FIRST_WITH_SESSIONS else (0, 0)
    topics = []
    for _ in range(reader.array_length(3)):
        topic: TopicKey = reader.uuid() if version >= FIRST_WITH_TOPIC_IDS else reader.string()
        topics.append(TopicResponse(topic, [_partition(reader, version) for _ in range(reader.array_length(20))]))
        reader.skip_tags()
    return FetchResponse(throttle_time_ms, error_code, session_id, topics)


def _partition(reader: WireReader, version: int) -> PartitionResponse:
    partition, error_code, high_watermark, last_stable_offset = reader.unpack(_PARTITION)
    log_start_offset = reader.i64() if version >= _FIRST_WITH_LOG_START else -1
    aborted = []
    for _ in range(reader.array_length(_TRANSACTION.size)):
        producer_id, first_offset = reader.unpack(_TRANSACTION)
        aborted.append((producer_id, first_offset))
        reader.skip_tags()
    preferred_read_replica = reader.i32() if version >= _FIRST_WITH_READ_REPLICA else -1
    records = reader.nullable_bytes()
    # The tags are for followers, and name the current leader, which the client takes from the metadata instead.
    reader.skip_tags()
    return PartitionResponse(
        partition,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred_read_replica,
        b"" if records is None else records,
    )


_NO_SESSION: Final = 0
_OPENING_EPOCH: Final = 0
_CLOSING_EPOCH: Final = -1
_LARGEST_EPOCH: Final = 2**31 - 1
_KIBIBYTE: Final = 1024


class FetchLimits(NamedTuple):
    """How much one response may hold, and how long a broker may wait for records."""

    max_bytes: int = 16 * _KIBIBYTE * _KIBIBYTE
    partition_max_bytes: int = 4 * _KIBIBYTE * _KIBIBYTE
    min_bytes: int = 1
    max_wait_ms: int = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """The position of a partition, its leader epoch, and the id of its topic."""

    offset: int
    leader_epoch: int
    topic_id: UUID | None


class FetchSession:
    """One broker's session. Between a request and its response, no other request may be built."""

    def __init__(self, limits: FetchLimits, *, read_committed: bool, is_kept: bool = True) -> None:
        """Without `is_kept` there is no session, and every request is complete."""
        self._limits = limits
        self._is_kept = is_kept
        self._first_epoch = _OPENING_EPOCH if is_kept else _CLOSING_EPOCH
        self._isolation_level = i8(READ_COMMITTED if read_committed else 0)
        self._session_id = _NO_SESSION
        self._epoch = self._first_epoch
        self._wanted: dict[TopicPartition, Wanted] = {}
        self._told: dict[TopicPartition, Wanted] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def is_open(self) -> bool:
        """Whether the broker keeps a session that should be closed."""
        return self._session_id != _NO_SESSION

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return list(self._wanted)

    def want(self, topic_partition: TopicPartition, wanted: Wanted) -> None:
        """Fetch a partition from this position on."""
        self._wanted[topic_partition] = wanted

    def move(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continue a partition at this offset."""
        known = self._wanted[topic_partition]
        self._wanted[topic_partition] = Wanted(offset, known.leader_epoch, known.topic_id)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Stop fetching a partition."""
        self._wanted.pop(topic_partition, None)

    def request(self) -> FetchRequest:
        """The next request: complete for a new session, only the changes for one that the broker has."""
        if self._epoch == self._first_epoch:
            self._told = {}
        asked = {
            topic_partition: wanted
            for topic_partition, wanted in self._wanted.items()
            if self._told.get(topic_partition) != wanted
        }
        gone = {
            topic_partition: told
            for topic_partition, told in self._told.items()
            if topic_partition not in self._wanted or self._wanted[topic_partition].topic_id != told.topic_id
        }
        self._told = dict(self._wanted)
        return self._message(self._epoch, asked, gone, self._limits.max_wait_ms)

    def closing_request(self) -> FetchRequest:
        """A request that fetches nothing and closes the session."""
        return self._message(_CLOSING_EPOCH, {}, {}, max_wait_ms=0)

    def accept(self, response: FetchResponse) -> None:
        """Continue the session, or start a new one if the broker has lost it. The records of the response are valid either way."""
        if not self._is_kept or response.error_code != ErrorCode.none or response.session_id == _NO_SESSION:
            self.restart()
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == _LARGEST_EPOCH else self._epoch + 1

    def restart(self) -> None:
        """Start a new session with the next request, for example after a lost connection."""
        self._session_id = _NO_SESSION
        self._epoch = self._first_epoch

    def wanted_partitions(self, response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionResponse]]:
        """The partitions of the response that are still wanted."""
        names = {wanted.topic_id: topic for (topic, _), wanted in self._told.items()}
        for topic_response in response.topics:
            key = topic_response.topic
            topic = names.get(key) if isinstance(key, UUID) else key
            for partition_response in topic_response.partitions:
                if topic is not None and (topic, partition_response.partition) in self._wanted:
                    yield (topic, partition_response.partition), partition_response

    def _message(
        self, epoch: int, asked: dict[TopicPartition, Wanted], gone: dict[TopicPartition, Wanted], max_wait_ms: int
    ) -> FetchRequest:
        limits = self._limits
        return FetchRequest(
            max_wait=i32Timedelta.parse(timedelta(milliseconds=max_wait_ms)),
            min_bytes=i32(limits.min_bytes),
            max_bytes=i32(limits.max_bytes),
            isolation_level=self._isolation_level,
            session_id=i32(self._session_id),
            session_epoch=i32(epoch),
            topics=tuple(
                FetchTopic(
                    topic=TopicName(topic),
                    topic_id=topic_id,
                    partitions=tuple(
                        self._partition(topic_partition[1], wanted) for topic_partition, wanted in topic_partitions
                    ),
                )
                for (topic, topic_id), topic_partitions in _by_topic(asked.items())
            ),
            forgotten_topics_data=tuple(
                ForgottenTopic(
                    topic=TopicName(topic),
                    topic_id=topic_id,
                    partitions=tuple(i32(topic_partition[1]) for topic_partition, _ in topic_partitions),
                )
                for (topic, topic_id), topic_partitions in _by_topic(gone.items())
            ),
        )

    def _partition(self, partition: int, wanted: Wanted) -> FetchPartition:
        return FetchPartition(
            partition=i32(partition),
            current_leader_epoch=i32(wanted.leader_epoch),
            fetch_offset=i64(wanted.offset),
            partition_max_bytes=i32(self._limits.partition_max_bytes),
        )


_Entries = list[tuple[TopicPartition, Wanted]]


def _by_topic(entries: Iterable[tuple[TopicPartition, Wanted]]) -> Iterable[tuple[tuple[str, UUID | None], _Entries]]:
    topics: dict[tuple[str, UUID | None], _Entries] = {}
    for topic_partition, wanted in entries:
        topics.setdefault((topic_partition[0], wanted.topic_id), []).append((topic_partition, wanted))
    return topics.items()
