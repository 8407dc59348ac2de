"""The partitions that are read from one broker, as a fetch session (KIP-227): requests carry only what changed.

A single partition gains nothing from that and is read without one: brokers keep only so many sessions. No I/O happens here.
A session is told what is wanted, makes the next request of it, and takes the answer to that request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchPartition, FetchRequest
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from catchment.client.fetch_answers import FetchAnswer
from catchment.client.topic_metadata import Place
from catchment.protocol.adapters.fetch import FetchTopic, ForgottenTopic
from catchment.protocol.fetch import READ_COMMITTED, PartitionAnswer

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
        self._wanted: dict[Place, Wanted] = {}
        self._told: dict[Place, Wanted] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def is_open(self) -> bool:
        """Whether the broker keeps something for us that is worth giving back."""
        return self._session_id != _NO_SESSION

    @property
    def places(self) -> list[Place]:
        return list(self._wanted)

    def want(self, place: Place, wanted: Wanted) -> None:
        """Read a partition from there on."""
        self._wanted[place] = wanted

    def move(self, place: Place, offset: int) -> None:
        """Go on reading a partition at this offset."""
        known = self._wanted[place]
        self._wanted[place] = Wanted(offset, known.leader_epoch, known.topic_id)

    def drop(self, place: Place) -> None:
        """Read a partition no longer."""
        self._wanted.pop(place, None)

    def request(self) -> FetchRequest:
        """The next request: everything for a new session, what changed for one that the broker knows."""
        if self._epoch == self._first_epoch:
            self._told = {}
        asked = {place: wanted for place, wanted in self._wanted.items() if self._told.get(place) != wanted}
        gone = {
            place: told
            for place, told in self._told.items()
            if place not in self._wanted or self._wanted[place].topic_id != told.topic_id
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

    def answers(self, answer: FetchAnswer) -> Iterator[tuple[Place, PartitionAnswer]]:
        """The answer's partitions that are still wanted, by place."""
        names = {wanted.topic_id: topic for (topic, _), wanted in self._told.items()}
        for topic_answer in answer.topics:
            key = topic_answer.topic
            topic = names.get(key) if isinstance(key, UUID) else key
            for partition_answer in topic_answer.partitions:
                if topic is not None and (topic, partition_answer.partition) in self._wanted:
                    yield (topic, partition_answer.partition), partition_answer

    def _message(
        self, epoch: int, asked: dict[Place, Wanted], gone: dict[Place, Wanted], max_wait_ms: int
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
                    partitions=tuple(self._partition(place[1], wanted) for place, wanted in places),
                )
                for (topic, topic_id), places in _by_topic(asked.items())
            ),
            forgotten_topics_data=tuple(
                ForgottenTopic(
                    topic=TopicName(topic), topic_id=topic_id, partitions=tuple(i32(place[1]) for place, _ in places)
                )
                for (topic, topic_id), places in _by_topic(gone.items())
            ),
        )

    def _partition(self, partition: int, wanted: Wanted) -> FetchPartition:
        return FetchPartition(
            partition=i32(partition),
            current_leader_epoch=i32(wanted.leader_epoch),
            fetch_offset=i64(wanted.offset),
            partition_max_bytes=i32(self._limits.partition_max_bytes),
        )


_Entries = list[tuple[Place, Wanted]]


def _by_topic(entries: Iterable[tuple[Place, Wanted]]) -> Iterable[tuple[tuple[str, UUID | None], _Entries]]:
    topics: dict[tuple[str, UUID | None], _Entries] = {}
    for place, wanted in entries:
        topics.setdefault((place[0], wanted.topic_id), []).append((place, wanted))
    return topics.items()
