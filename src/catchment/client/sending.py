"""Batches to the leaders of their partitions: several requests ahead, and again until each is acknowledged.

At most five requests are under way on a connection, each with one batch a partition: so many batches of a producer does a
broker remember, and so it recognises each one that it is sent again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.types import TransactionalId

from catchment.client.cluster import Cluster
from catchment.client.connection import Connection, wait
from catchment.client.deadline import Deadline
from catchment.client.errors import BrokerError, ClientError, TimedOut, Unreachable, passes
from catchment.client.produce_queue import Outgoing, PartitionQueue, Verdict, Written
from catchment.client.produce_requests import CarriedBatches
from catchment.client.topic_metadata import Place

_PRODUCE_KEY: Final = 0
_MOST_IN_FLIGHT: Final = 5
_REQUEST_BYTES: Final = 8 * 1024 * 1024
_QUEUED_BYTES: Final = 64 * 1024 * 1024
_PAUSE_S: Final = 0.05


class _Pause(NamedTuple):
    """Until when a partition is left alone, and why."""

    until_s: float
    reason: ClientError


class _Link:
    """A connection to one broker, and what is under way on it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.in_flight: deque[CarriedBatches] = deque()


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
        self._pauses: dict[Place, _Pause] = {}
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
        self._pauses.clear()
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
            next_s = min((pause.until_s for pause in self._pauses.values()), default=0.0)
            time.sleep(max(0.0, min(next_s - time.monotonic(), _PAUSE_S)))
            return
        by_connection = {link.connection: link for link in busy}
        for connection in wait(by_connection, _PAUSE_S):
            self._receive(by_connection[connection])
        overdue_s = time.monotonic() - self._answer_timeout_s
        for link in busy:
            if link.in_flight and link.in_flight[0].sent_at_s < overdue_s:
                self._lose(link, TimedOut(f"no answer from {link.connection.name} in time"))

    def _send_all(self) -> None:
        if self._stale:
            self._refresh_stale()
        by_leader: dict[int, list[Place]] = {}
        for place in self._ready():
            try:
                by_leader.setdefault(self._cluster.known_leader(*place).broker_id, []).append(place)
            except BrokerError as error:
                self._put_off([place], error)
        for broker_id, places in by_leader.items():
            self._send_to(broker_id, places)

    def _ready(self) -> list[Place]:
        """The partitions that can be sent to now. A batch that has waited for too long is the end."""
        now_s = time.monotonic()
        ready = []
        for place, queue in self._queues.items():
            pause = self._pauses.get(place)
            if queue.is_sendable and (pause is None or pause.until_s <= now_s):
                if queue.first_waiting.deadline_s < now_s:
                    self._fail(_late(place, None if pause is None else pause.reason))
                ready.append(place)
        return ready

    def _refresh_stale(self) -> None:
        """Ask once for each topic whose leaders may be others by now."""
        waiting: dict[str, list[Place]] = {}
        for place in self._ready():
            if place[0] in self._stale:
                waiting.setdefault(place[0], []).append(place)
        for topic, places in waiting.items():
            try:
                self._cluster.refresh([topic], deadline=self._deadline(places))
                self._stale.discard(topic)
            except BrokerError as error:
                self._put_off(places, error)
            except (Unreachable, TimedOut) as error:
                # Who does not answer for this topic does not for the next one either.
                self._put_off([place for places in waiting.values() for place in places], error)
                return

    def _put_off(self, places: Iterable[Place], reason: ClientError) -> None:
        """Let partitions wait a moment for what passes by itself; all else is the end."""
        if not passes(reason):
            self._fail(reason)
        for place in places:
            self._pause(place, reason)

    def _deadline(self, places: Iterable[Place]) -> Deadline:
        """Until when to try for these partitions: no longer than the first of their batches may wait."""
        first_s = min(self._queues[place].first_waiting.deadline_s for place in places)
        return self._cluster.deadline().within(max(0.0, first_s - time.monotonic()))

    def _send_to(self, broker_id: int, places: list[Place]) -> None:
        link = self._links.get(broker_id)
        try:
            # What is taken belongs to a request from then on, so all that may fail before comes first.
            topic_ids = {topic: self._cluster.topic_id(topic) for topic in {topic for topic, _ in places}}
            if link is None:
                link = self._links[broker_id] = _Link(self._cluster.connection(broker_id, self._deadline(places)))
            version = self._version(link.connection)
            while len(link.in_flight) < _MOST_IN_FLIGHT and (batches := self._take(places)):
                request = CarriedBatches(batches, topic_ids, time.monotonic())
                link.in_flight.append(request)
                link.connection.send(request.message(self._transactional_id), version)
        except (Unreachable, TimedOut) as error:
            if link is not None:
                self._lose(link, error)
            self._put_off(places, error)

    def _take(self, places: Iterable[Place]) -> dict[Place, Outgoing]:
        """One batch a partition, together not larger than a request should be, but at least one."""
        taken: dict[Place, Outgoing] = {}
        size = 0
        for place in places:
            queue = self._queues[place]
            if queue.is_sendable and (not taken or size + len(queue.first_waiting.data) <= _REQUEST_BYTES):
                taken[place] = queue.take()
                self._pauses.pop(place, None)
                size += len(taken[place].data)
        return taken

    def _version(self, connection: Connection) -> int:
        newest = connection.version_of(_PRODUCE_KEY)
        return newest if self._newest_version is None else min(newest, self._newest_version)

    def _receive(self, link: _Link) -> None:
        try:
            answer = link.connection.answer()
        except (Unreachable, TimedOut) as error:
            self._lose(link, error)
            return
        for place, batch, one in link.in_flight.popleft().answered(answer):
            if one is None:
                self._retry(place, batch, ClientError(f"{link.connection.name} does not say what became of them"))
            else:
                self._settle(place, batch, one)

    def _settle(self, place: Place, batch: Outgoing, answer: Any) -> None:
        queue = self._queues[place]
        verdict = queue.judge(answer.error_code)
        if verdict is Verdict.WRITTEN:
            self._queued_bytes -= len(batch.data)
            queue.acknowledge(batch, answer.base_offset if answer.error_code is ErrorCode.none else -1)
            return
        reason = answer.error_message or answer.error_code.name.replace("_", " ")
        error = BrokerError(answer.error_code, f"cannot write to partition {place[1]} of topic {place[0]}: {reason}")
        if verdict is Verdict.FAILED:
            self._fail(error)
        self._retry(place, batch, error)

    def _retry(self, place: Place, batch: Outgoing, reason: ClientError) -> None:
        self._queues[place].retry(batch)
        self._pause(place, reason)

    def _pause(self, place: Place, reason: ClientError) -> None:
        self._stale.add(place[0])
        self._pauses[place] = _Pause(time.monotonic() + _PAUSE_S, reason)

    def _lose(self, link: _Link, reason: ClientError) -> None:
        """A connection is gone: whether its requests arrived is unknown, so all of them are sent again."""
        link.connection.close()
        self._links = {broker_id: known for broker_id, known in self._links.items() if known is not link}
        for request in link.in_flight:
            for place, batch in request.batches.items():
                self._retry(place, batch, reason)
        link.in_flight.clear()

    def _fail(self, failure: ClientError) -> None:
        self._failure = failure
        raise failure

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _late(place: Place, reason: ClientError | None) -> TimedOut:
    """What is said of a partition whose batch has waited for too long, and of what held it up last."""
    late = TimedOut(f"partition {place[1]} of {place[0]} took no records in time")
    if reason is None:
        return late
    return TimedOut(f"{late.message}: {reason.message}", reason.advice or late.advice)
