"""Batches to the leaders of their partitions: several requests ahead, and again until each is acknowledged.

At most five requests are under way on a connection, each with one batch a partition: so many batches of a producer does a
broker remember, and so it recognises each one that it is sent again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta

from catchment.client.cluster import Cluster
from catchment.client.connection import Connection, wait
from catchment.client.errors import BrokerError, ClientError, TimedOut, Unreachable
from catchment.client.produce_queue import Outgoing, PartitionQueue, Verdict, Written
from catchment.client.topic_metadata import Place
from catchment.protocol.adapters.produce import TopicProduceData

_PRODUCE_KEY: Final = 0
_MOST_IN_FLIGHT: Final = 5
_ALL_REPLICAS: Final = i16(-1)
_BROKER_TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=30))
_REQUEST_BYTES: Final = 8 * 1024 * 1024
_QUEUED_BYTES: Final = 64 * 1024 * 1024
_PAUSE_S: Final = 0.05


class _Request(NamedTuple):
    """What one request carries, and the ids that it gave the topics, by which they may be answered."""

    batches: dict[Place, Outgoing]
    topics: dict[UUID | None, str]
    sent_at_s: float


class _Link:
    """A connection to one broker, and what is under way on it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.in_flight: deque[_Request] = deque()


class Sender:
    """The way of one producer's batches. Its first failure is final: it is raised from then on, until `discard`."""

    def __init__(
        self, cluster: Cluster, transactional_id: str | None, newest_version: int | None, answer_timeout_s: float
    ) -> None:
        """`newest_version` of Produce is the newest to be used, None for the newest that both sides know.

        A connection on which an answer takes longer than `answer_timeout_s` counts as lost.
        """
        self._cluster = cluster
        self._transactional_id = None if transactional_id is None else TransactionalId(transactional_id)
        self._newest_version = newest_version
        self._answer_timeout_s = answer_timeout_s
        self._links: dict[int, _Link] = {}
        self._queues: dict[Place, PartitionQueue] = {}
        self._resume_at_s: dict[Place, float] = {}
        self._stale: set[str] = set()
        self._queued_bytes = 0
        self._failure: ClientError | None = None

    @property
    def failure(self) -> ClientError | None:
        return self._failure

    @property
    def is_idle(self) -> bool:
        """Whether everything is acknowledged."""
        return all(queue.is_done for queue in self._queues.values())

    def queue(self, place: Place) -> PartitionQueue:
        """The queue of a partition; batches are encoded with its next sequence number."""
        return self._queues.setdefault(place, PartitionQueue())

    def add(self, place: Place, batch: Outgoing) -> None:
        """Queue a batch and send what can be sent; wait only where too much is queued already."""
        self._raise_failure()
        self.queue(place).add(batch)
        self._queued_bytes += len(batch.data)
        self._send_all()
        while self._queued_bytes > _QUEUED_BYTES:
            self._advance()

    def flush(self) -> dict[Place, Written]:
        """Wait until everything is acknowledged; what was, since the last flush."""
        self._raise_failure()
        while not self.is_idle:
            self._advance()
        written = {place: queue.written for place, queue in self._queues.items() if queue.written is not None}
        for queue in self._queues.values():
            queue.written = None
        return written

    def drain(self) -> None:
        """Send nothing more, and take the answers to what is under way: after that, nothing late can arrive."""
        for link in list(self._links.values()):
            while link.in_flight:
                # A failure that this brings is remembered, and the answers after it still count.
                with suppress(ClientError):
                    self._receive(link)

    def discard(self) -> None:
        """Give up what is not acknowledged, and forget the failure."""
        for queue in self._queues.values():
            queue.clear()
        self._resume_at_s.clear()
        self._queued_bytes = 0
        self._failure = None

    def restart_sequences(self) -> None:
        """Number every partition's batches from 0, as a new epoch demands. Nothing may be queued."""
        self._queues.clear()

    def close(self) -> None:
        for broker_id, link in self._links.items():
            self._cluster.release(broker_id, link.connection)
        self._links.clear()

    def _advance(self) -> None:
        """One step: send what can be sent, then wait for an answer, or for the end of a pause."""
        self._send_all()
        busy = [link for link in self._links.values() if link.in_flight]
        if not busy:
            next_s = min(self._resume_at_s.values(), default=0.0)
            time.sleep(max(0.0, min(next_s - time.monotonic(), _PAUSE_S)))
            return
        by_connection = {link.connection: link for link in busy}
        for connection in wait(by_connection, _PAUSE_S):
            self._receive(by_connection[connection])
        overdue_s = time.monotonic() - self._answer_timeout_s
        for link in busy:
            if link.in_flight and link.in_flight[0].sent_at_s < overdue_s:
                self._lose(link)

    def _send_all(self) -> None:
        now_s = time.monotonic()
        sendable: dict[int, list[Place]] = {}
        for place, queue in self._queues.items():
            if queue.is_sendable and self._resume_at_s.get(place, 0.0) <= now_s:
                if queue.first_waiting.deadline_s < now_s:
                    self._fail(TimedOut(f"partition {place[1]} of {place[0]} took no records in time"))
                leader = self._leader(place)
                if leader is not None:
                    sendable.setdefault(leader, []).append(place)
        for broker_id, places in sendable.items():
            self._send_to(broker_id, places)

    def _leader(self, place: Place) -> int | None:
        """The broker to send to; None, and a pause for the partition, while there is none."""
        try:
            if place[0] in self._stale:
                self._cluster.refresh([place[0]])
                self._stale.discard(place[0])
            return self._cluster.leader(*place).broker_id
        except (Unreachable, TimedOut):
            self._pause(place)
        except BrokerError as error:
            if not error.code.retriable:
                self._fail(error)
            self._pause(place)
        return None

    def _send_to(self, broker_id: int, places: list[Place]) -> None:
        link = self._links.get(broker_id)
        try:
            if link is None:
                link = self._links[broker_id] = _Link(self._cluster.connection(broker_id))
            while len(link.in_flight) < _MOST_IN_FLIGHT and (batches := self._take(places)):
                request = _Request(
                    batches, {self._cluster.topic_id(topic): topic for topic, _ in batches}, time.monotonic()
                )
                link.in_flight.append(request)
                link.connection.send(self._message(request), self._version(link.connection))
        except (Unreachable, TimedOut):
            if link is not None:
                self._lose(link)
            for place in places:
                self._pause(place)

    def _take(self, places: Iterable[Place]) -> dict[Place, Outgoing]:
        """One batch a partition, together not larger than a request should be, but at least one."""
        taken: dict[Place, Outgoing] = {}
        size = 0
        for place in places:
            queue = self._queues[place]
            if queue.is_sendable and (not taken or size + len(queue.first_waiting.data) <= _REQUEST_BYTES):
                taken[place] = queue.take()
                size += len(taken[place].data)
        return taken

    def _version(self, connection: Connection) -> int:
        newest = connection.version_of(_PRODUCE_KEY)
        return newest if self._newest_version is None else min(newest, self._newest_version)

    def _message(self, request: _Request) -> ProduceRequest:
        partitions: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), batch in request.batches.items():
            partitions.setdefault(topic, []).append(
                PartitionProduceData(index=i32(partition), records=Records(batch.data))
            )
        topics = tuple(
            TopicProduceData(name=TopicName(topic), topic_id=topic_id, partition_data=tuple(partitions[topic]))
            for topic_id, topic in request.topics.items()
        )
        return ProduceRequest(
            transactional_id=self._transactional_id, acks=_ALL_REPLICAS, timeout=_BROKER_TIMEOUT, topic_data=topics
        )

    def _receive(self, link: _Link) -> None:
        try:
            answer = link.connection.receive()
        except (Unreachable, TimedOut):
            self._lose(link)
            return
        batches, topics, _ = link.in_flight.popleft()
        for topic_answer in answer.decode().responses:
            topic = topic_answer.name or topics.get(topic_answer.topic_id, "")
            for one in topic_answer.partition_responses:
                if (topic, one.index) in batches:
                    self._settle((topic, one.index), batches.pop((topic, one.index)), one)
        for place, batch in batches.items():
            self._retry(place, batch)

    def _settle(self, place: Place, batch: Outgoing, answer: Any) -> None:
        queue = self._queues[place]
        verdict = queue.judge(answer.error_code)
        if verdict is Verdict.WRITTEN:
            self._queued_bytes -= len(batch.data)
            queue.acknowledge(batch, answer.base_offset if answer.error_code is ErrorCode.none else -1)
        elif verdict is Verdict.RETRY:
            self._retry(place, batch)
        else:
            reason = answer.error_message or answer.error_code.name.replace("_", " ")
            self._fail(
                BrokerError(answer.error_code, f"cannot write to partition {place[1]} of topic {place[0]}: {reason}")
            )

    def _retry(self, place: Place, batch: Outgoing) -> None:
        self._queues[place].retry(batch)
        self._pause(place)

    def _pause(self, place: Place) -> None:
        self._stale.add(place[0])
        self._resume_at_s[place] = time.monotonic() + _PAUSE_S

    def _lose(self, link: _Link) -> None:
        """A connection is gone: whether its requests arrived is unknown, so all of them are sent again."""
        link.connection.close()
        self._links = {broker_id: known for broker_id, known in self._links.items() if known is not link}
        for request in link.in_flight:
            for place, batch in request.batches.items():
                self._retry(place, batch)
        link.in_flight.clear()

    def _fail(self, failure: ClientError) -> None:
        self._failure = failure
        raise failure

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
