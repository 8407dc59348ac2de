"""The partitions that are read from one broker, as a fetch session (KIP-227): requests carry only what changed.

A single partition gains nothing from that and is read without one: brokers keep only so many sessions. No I/O happens here.
A session is told what is wanted, makes the next request of it, and takes the answer to that request.
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
from catchment.protocol.fetch import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS, READ_COMMITTED, PartitionAnswer, TopicAnswer
from catchment.protocol.produce import TopicKey
from catchment.protocol.wire import WireReader

_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_READ_REPLICA: Final = 11

_ERROR_AND_SESSION: Final = Struct(">hi")
_PARTITION: Final = Struct(">ihqq")
_TRANSACTION: Final = Struct(">qq")


class FetchAnswer(NamedTuple):
    """What a broker answered to one Fetch."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    """The session to go on with; 0 if the broker keeps none."""
    topics: list[TopicAnswer]


def decode_answer(body: bytes | memoryview, version: int) -> FetchAnswer:
    """Read a response body at this version; MalformedRequest if the bytes are not one."""
    reader = WireReader(memoryview(body), 0, flexible=version >= FIRST_FLEXIBLE)
    throttle_time_ms = reader.i32()
    error_code, session_id = reader.unpack(_ERROR_AND_SESSION) if version >= _FIRST_WITH_SESSIONS else (0, 0)
    topics = []
    for _ in range(reader.array_length(3)):
        topic: TopicKey = reader.uuid() if version >= FIRST_WITH_TOPIC_IDS else reader.string()
        topics.append(TopicAnswer(topic, [_partition(reader, version) for _ in range(reader.array_length(20))]))
        reader.skip_tags()
    return FetchAnswer(throttle_time_ms, error_code, session_id, topics)


def _partition(reader: WireReader, version: int) -> PartitionAnswer:
    partition, error_code, high_watermark, last_stable_offset = reader.unpack(_PARTITION)
    log_start_offset = reader.i64() if version >= _FIRST_WITH_LOG_START else -1
    aborted = []
    for _ in range(reader.array_length(_TRANSACTION.size)):
        producer_id, first_offset = reader.unpack(_TRANSACTION)
        aborted.append((producer_id, first_offset))
        reader.skip_tags()
    preferred_read_replica = reader.i32() if version >= _FIRST_WITH_READ_REPLICA else -1
    records = reader.nullable_bytes()
    # The tags tell followers where logs part, and where the leader went; readers ask the metadata for that.
    reader.skip_tags()
    return PartitionAnswer(
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
    """How much one answer may carry, and how long a broker may wait for records to come."""

    max_bytes: int = 16 * _KIBIBYTE * _KIBIBYTE
    partition_max_bytes: int = 4 * _KIBIBYTE * _KIBIBYTE
    min_bytes: int = 1
    max_wait_ms: int = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where a partition is read next, under which leader epoch, and the id its topic goes by."""

    offset: int
    leader_epoch: int
    topic_id: UUID | None


class FetchSession:
    """One broker's session. Between a request and the answer to it, no other request may be made."""

    def __init__(self, limits: FetchLimits, *, read_committed: bool, is_kept: bool = True) -> None:
        """Without `is_kept` the broker is asked to remember nothing, and every request says all."""
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
        """Whether the broker keeps something for us that is worth giving back."""
        return self._session_id != _NO_SESSION

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return list(self._wanted)

    def want(self, topic_partition: TopicPartition, wanted: Wanted) -> None:
        """Read a partition from there on."""
        self._wanted[topic_partition] = wanted

    def move(self, topic_partition: TopicPartition, offset: int) -> None:
        """Go on reading a partition at this offset."""
        known = self._wanted[topic_partition]
        self._wanted[topic_partition] = Wanted(offset, known.leader_epoch, known.topic_id)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Read a partition no longer."""
        self._wanted.pop(topic_partition, None)

    def request(self) -> FetchRequest:
        """The next request: everything for a new session, what changed for one that the broker knows."""
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
        """A request that asks for nothing and lets the broker forget the session."""
        return self._message(_CLOSING_EPOCH, {}, {}, max_wait_ms=0)

    def accept(self, answer: FetchAnswer) -> None:
        """Take the session on, or begin anew where the broker has lost it: the records of the answer are good either way."""
        if not self._is_kept or answer.error_code != ErrorCode.none or answer.session_id == _NO_SESSION:
            self.restart()
        else:
            self._session_id = answer.session_id
            self._epoch = 1 if self._epoch == _LARGEST_EPOCH else self._epoch + 1

    def restart(self) -> None:
        """Begin a new session with the next request, as after a lost connection or an answer that says the session is gone."""
        self._session_id = _NO_SESSION
        self._epoch = self._first_epoch

    def answers(self, answer: FetchAnswer) -> Iterator[tuple[TopicPartition, PartitionAnswer]]:
        """The partitions of the response that are still wanted."""
        names = {wanted.topic_id: topic for (topic, _), wanted in self._told.items()}
        for topic_answer in answer.topics:
            key = topic_answer.topic
            topic = names.get(key) if isinstance(key, UUID) else key
            for partition_answer in topic_answer.partitions:
                if topic is not None and (topic, partition_answer.partition) in self._wanted:
                    yield (topic, partition_answer.partition), partition_answer

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
