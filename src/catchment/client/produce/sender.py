"""Sends batches to the leaders of their partitions, several requests ahead, and retries until each is acknowledged.

At most five requests are in flight on a connection, each with one batch a partition: a broker keeps the last five batches of
a producer to detect duplicates.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, ClientError, TimedOut, Unreachable, passes
from catchment.client.network.connection import Connection, wait
from catchment.client.network.deadline import Deadline
from catchment.client.produce.queue import PartitionQueue, ProducerBatch, Verdict, Written
from catchment.client.topic_metadata import TopicPartition
from catchment.protocol.adapters.produce import TopicProduceData

_ALL_REPLICAS: Final = i16(-1)
_BROKER_TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=30))


class InFlightRequest(NamedTuple):
    """One Produce request: a batch for each partition, and the ids of their topics (None from brokers before Kafka 2.8)."""

    batches: dict[TopicPartition, ProducerBatch]
    topic_ids: dict[str, UUID | None]
    sent_at_s: float

    def message(self, transactional_id: TransactionalId | None) -> ProduceRequest:
        partitions: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), batch in self.batches.items():
            partitions.setdefault(topic, []).append(
                PartitionProduceData(index=i32(partition), records=Records(batch.data))
            )
        topics = tuple(
            TopicProduceData(name=TopicName(topic), topic_id=self.topic_ids[topic], partition_data=tuple(data))
            for topic, data in partitions.items()
        )
        return ProduceRequest(
            transactional_id=transactional_id, acks=_ALL_REPLICAS, timeout=_BROKER_TIMEOUT, topic_data=topics
        )

    def answered(self, response: Any) -> Iterator[tuple[TopicPartition, ProducerBatch, Any]]:
        """Each batch with its partition's part of the response; None if the response lacks it."""
        # Topics in the response have names, or only their ids since version 13.
        names = {topic_id: topic for topic, topic_id in self.topic_ids.items()}
        parts = {
            (topic.name or names.get(topic.topic_id), one.index): one
            for topic in response.responses
            for one in topic.partition_responses
        }
        for topic_partition, batch in self.batches.items():
            yield topic_partition, batch, parts.get(topic_partition)


_PRODUCE_KEY: Final = 0
_MOST_IN_FLIGHT: Final = 5
_REQUEST_BYTES: Final = 8 * 1024 * 1024
_QUEUED_BYTES: Final = 64 * 1024 * 1024
_PAUSE_S: Final = 0.05


class _Pause(NamedTuple):
    """Until when a partition is not sent to, and why."""

    until_s: float
    reason: ClientError


class _Link:
    """A connection to one broker, and the requests in flight on it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.in_flight: deque[InFlightRequest] = deque()


class Sender:
    """Sends the batches of one producer. After its first failure every call raises it, until `discard`."""

    def __init__(
        self, cluster: Cluster, transactional_id: str | None, newest_version: int | None, response_timeout_s: float
    ) -> None:
        """`newest_version` limits the version of Produce; None means the newest that both sides support.

        A connection counts as lost if a response takes longer than `response_timeout_s`.
        """
        self._cluster = cluster
        self._transactional_id = None if transactional_id is None else TransactionalId(transactional_id)
        self._newest_version = newest_version
        self._response_timeout_s = response_timeout_s
        self._links: dict[int, _Link] = {}
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._pauses: dict[TopicPartition, _Pause] = {}
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

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition. Batches are encoded with its next sequence number."""
        return self._queues.setdefault(topic_partition, PartitionQueue())

    def add(self, topic_partition: TopicPartition, batch: ProducerBatch) -> None:
        """Queue a batch and send what can be sent. Waits only if too much is queued already."""
        self._raise_failure()
        self.queue(topic_partition).add(batch)
        self._queued_bytes += len(batch.data)
        self._send_all()
        while self._queued_bytes > _QUEUED_BYTES:
            self._advance()

    def flush(self) -> dict[TopicPartition, Written]:
        """Wait until everything is acknowledged. Returns what was written since the last flush."""
        self._raise_failure()
        while not self.is_idle:
            self._advance()
        written = {
            topic_partition: queue.written
            for topic_partition, queue in self._queues.items()
            if queue.written is not None
        }
        for queue in self._queues.values():
            queue.written = None
        return written

    def drain(self) -> None:
        """Send nothing more, and receive the responses to the requests in flight, so that nothing is written later."""
        for link in list(self._links.values()):
            while link.in_flight:
                # The failure is recorded, and the responses after it still count.
                with suppress(ClientError):
                    self._receive(link)

    def discard(self) -> None:
        """Drop what is not acknowledged, and clear the failure."""
        for queue in self._queues.values():
            queue.clear()
        self._pauses.clear()
        self._queued_bytes = 0
        self._failure = None

    def restart_sequences(self) -> None:
        """Number every partition's batches from 0, as a new epoch requires. Nothing may be queued."""
        self._queues.clear()

    def close(self) -> None:
        for broker_id, link in self._links.items():
            self._cluster.release(broker_id, link.connection)
        self._links.clear()

    def _advance(self) -> None:
        """One step: send what can be sent, then wait for a response or for the end of a pause."""
        self._send_all()
        busy = [link for link in self._links.values() if link.in_flight]
        if not busy:
            next_s = min((pause.until_s for pause in self._pauses.values()), default=0.0)
            time.sleep(max(0.0, min(next_s - time.monotonic(), _PAUSE_S)))
            return
        by_connection = {link.connection: link for link in busy}
        for connection in wait(by_connection, _PAUSE_S):
            self._receive(by_connection[connection])
        overdue_s = time.monotonic() - self._response_timeout_s
        for link in busy:
            if link.in_flight and link.in_flight[0].sent_at_s < overdue_s:
                self._lose(link, TimedOut(f"no response from {link.connection.name} in time"))

    def _send_all(self) -> None:
        if self._stale:
            self._refresh_stale()
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in self._ready():
            try:
                by_leader.setdefault(self._cluster.known_leader(*topic_partition).broker_id, []).append(topic_partition)
            except BrokerError as error:
                self._put_off([topic_partition], error)
        for broker_id, topic_partitions in by_leader.items():
            self._send_to(broker_id, topic_partitions)

    def _ready(self) -> list[TopicPartition]:
        """The partitions that can be sent to now. Fails if a batch has waited for longer than its deadline."""
        now_s = time.monotonic()
        ready = []
        for topic_partition, queue in self._queues.items():
            pause = self._pauses.get(topic_partition)
            if queue.is_sendable and (pause is None or pause.until_s <= now_s):
                if queue.first_waiting.deadline_s < now_s:
                    self._fail(_late(topic_partition, None if pause is None else pause.reason))
                ready.append(topic_partition)
        return ready

    def _refresh_stale(self) -> None:
        """Refresh each topic whose leaders may have changed, once."""
        waiting: dict[str, list[TopicPartition]] = {}
        for topic_partition in self._ready():
            if topic_partition[0] in self._stale:
                waiting.setdefault(topic_partition[0], []).append(topic_partition)
        for topic, topic_partitions in waiting.items():
            try:
                self._cluster.refresh([topic], deadline=self._deadline(topic_partitions))
                self._stale.discard(topic)
            except BrokerError as error:
                self._put_off(topic_partitions, error)
            except (Unreachable, TimedOut) as error:
                # Without a response for this topic, there will be none for the next one either.
                self._put_off(
                    [topic_partition for topic_partitions in waiting.values() for topic_partition in topic_partitions],
                    error,
                )
                return

    def _put_off(self, topic_partitions: Iterable[TopicPartition], reason: ClientError) -> None:
        """Pause partitions after a retriable error; fail after any other."""
        if not passes(reason):
            self._fail(reason)
        for topic_partition in topic_partitions:
            self._pause(topic_partition, reason)

    def _deadline(self, topic_partitions: Iterable[TopicPartition]) -> Deadline:
        """The deadline for these partitions: no later than that of their first batch."""
        first_s = min(self._queues[topic_partition].first_waiting.deadline_s for topic_partition in topic_partitions)
        return self._cluster.deadline().within(max(0.0, first_s - time.monotonic()))

    def _send_to(self, broker_id: int, topic_partitions: list[TopicPartition]) -> None:
        link = self._links.get(broker_id)
        try:
            # A batch that is taken belongs to a request, so everything that may fail comes before.
            topic_ids = {topic: self._cluster.topic_id(topic) for topic in {topic for topic, _ in topic_partitions}}
            if link is None:
                link = self._links[broker_id] = _Link(
                    self._cluster.connection(broker_id, self._deadline(topic_partitions))
                )
            version = self._version(link.connection)
            while len(link.in_flight) < _MOST_IN_FLIGHT and (batches := self._take(topic_partitions)):
                request = InFlightRequest(batches, topic_ids, time.monotonic())
                link.in_flight.append(request)
                link.connection.send(request.message(self._transactional_id), version)
        except (Unreachable, TimedOut) as error:
            if link is not None:
                self._lose(link, error)
            self._put_off(topic_partitions, error)

    def _take(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ProducerBatch]:
        """One batch a partition, together no larger than a request should be, but at least one."""
        taken: dict[TopicPartition, ProducerBatch] = {}
        size = 0
        for topic_partition in topic_partitions:
            queue = self._queues[topic_partition]
            if queue.is_sendable and (not taken or size + len(queue.first_waiting.data) <= _REQUEST_BYTES):
                taken[topic_partition] = queue.take()
                self._pauses.pop(topic_partition, None)
                size += len(taken[topic_partition].data)
        return taken

    def _version(self, connection: Connection) -> int:
        newest = connection.version_of(_PRODUCE_KEY)
        return newest if self._newest_version is None else min(newest, self._newest_version)

    def _receive(self, link: _Link) -> None:
        try:
            response = link.connection.receive_response()
        except (Unreachable, TimedOut) as error:
            self._lose(link, error)
            return
        for topic_partition, batch, one in link.in_flight.popleft().answered(response):
            if one is None:
                self._retry(
                    topic_partition, batch, ClientError(f"the response of {link.connection.name} lacks the partition")
                )
            else:
                self._settle(topic_partition, batch, one)

    def _settle(self, topic_partition: TopicPartition, batch: ProducerBatch, response: Any) -> None:
        queue = self._queues[topic_partition]
        verdict = queue.judge(response.error_code)
        if verdict is Verdict.WRITTEN:
            self._queued_bytes -= len(batch.data)
            queue.acknowledge(batch, response.base_offset if response.error_code is ErrorCode.none else -1)
            return
        reason = response.error_message or response.error_code.name.replace("_", " ")
        error = BrokerError(
            response.error_code,
            f"cannot write to partition {topic_partition[1]} of topic {topic_partition[0]}: {reason}",
        )
        if verdict is Verdict.FAILED:
            self._fail(error)
        self._retry(topic_partition, batch, error)

    def _retry(self, topic_partition: TopicPartition, batch: ProducerBatch, reason: ClientError) -> None:
        self._queues[topic_partition].retry(batch)
        self._pause(topic_partition, reason)

    def _pause(self, topic_partition: TopicPartition, reason: ClientError) -> None:
        self._stale.add(topic_partition[0])
        self._pauses[topic_partition] = _Pause(time.monotonic() + _PAUSE_S, reason)

    def _lose(self, link: _Link, reason: ClientError) -> None:
        """Handle a lost connection: it is unknown whether its requests arrived, so all batches are sent again."""
        link.connection.close()
        self._links = {broker_id: known for broker_id, known in self._links.items() if known is not link}
        for request in link.in_flight:
            for topic_partition, batch in request.batches.items():
                self._retry(topic_partition, batch, reason)
        link.in_flight.clear()

    def _fail(self, failure: ClientError) -> None:
        self._failure = failure
        raise failure

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _late(topic_partition: TopicPartition, reason: ClientError | None) -> TimedOut:
    """The error for a batch that has waited for longer than its deadline, with the last reason."""
    late = TimedOut(f"partition {topic_partition[1]} of topic {topic_partition[0]} accepted no records in time")
    if reason is None:
        return late
    return TimedOut(f"{late.message}: {reason.message}", reason.advice or late.advice)
