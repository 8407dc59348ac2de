"""Sending to brokers that the test plays, with a clock of its own: a delayed partition delays no other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.produce.v13.response import PartitionProduceResponse, ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64
from tests.client.scripted_broker import NO_TIME

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, TimedOut, Unreachable
from catchment.client.network.deadline import Deadline
from catchment.client.produce.queue import ProducerBatch, Written
from catchment.client.produce.sender import Sender
from catchment.client.topic_metadata import Leader, TopicPartition
from catchment.protocol.adapters.produce import TopicProduceResponse

DELIVERY_TIMEOUT_S = 2.0
CLUSTER_TIMEOUT_S = 1.0
PLACES: list[TopicPartition] = [("topic", partition) for partition in range(30)]


class PlayedClock:
    """Time advances with each sleep and each wait without a result."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, time_s: float) -> None:
        self.now_s += time_s


class PlayedConnection:
    """Responds to every request at once, for each partition as scripted."""

    name = "played:9092"

    def __init__(self, code_of: Callable[[TopicPartition], ErrorCode | None]) -> None:
        self._code_of = code_of
        self.responses: deque[ProduceResponse] = deque()
        self.requests: list[list[TopicPartition]] = []

    def version_of(self, api_key: int) -> int:
        return 12

    def send(self, request: Any, version: int) -> None:
        topic_partitions = [
            (str(topic.name), int(data.index)) for topic in request.topic_data for data in topic.partition_data
        ]
        self.requests.append(topic_partitions)
        codes = {topic_partition: self._code_of(topic_partition) for topic_partition in topic_partitions}
        self.responses.append(
            ProduceResponse(
                responses=tuple(
                    TopicProduceResponse(
                        name=TopicName(topic),
                        topic_id=None,
                        partition_responses=(
                            PartitionProduceResponse(
                                index=i32(partition), error_code=code, base_offset=i64(0), record_errors=()
                            ),
                        ),
                    )
                    for (topic, partition), code in codes.items()
                    if code is not None
                ),
                throttle_time=NO_TIME,
            )
        )

    def receive_response(self, timeout_s: float | None = None) -> ProduceResponse:
        return self.responses.popleft()

    def close(self) -> None:
        self.responses.clear()


class PlayedCluster:
    """One broker, the leaders of partitions, and the errors for metadata requests."""

    def __init__(self, clock: PlayedClock) -> None:
        self._clock = clock
        self.codes: dict[TopicPartition, ErrorCode | None] = {}
        self.leaderless: set[TopicPartition] = set()
        self.is_gone = False
        self.refreshed = 0
        self.failing_ids = 0
        self.link = PlayedConnection(lambda topic_partition: self.codes.get(topic_partition, ErrorCode.none))

    def deadline(self) -> Deadline:
        return Deadline(CLUSTER_TIMEOUT_S)

    def known_leader(self, topic: str, partition: int) -> Leader:
        if (topic, partition) in self.leaderless:
            raise BrokerError(ErrorCode.leader_not_available, f"{topic}-{partition} has no leader")
        return Leader(1, 1)

    def topic_id(self, topic: str) -> UUID | None:
        if self.failing_ids:
            self.failing_ids -= 1
            raise Unreachable("the played cluster is gone")
        return None

    def refresh(self, topics: Iterable[str], *, deadline: Deadline) -> None:
        self.refreshed += 1
        if self.is_gone:
            self._clock.sleep(deadline.left_s())
            raise Unreachable("the played cluster is gone")

    def connection(self, broker_id: int, deadline: Deadline) -> PlayedConnection:
        return self.link


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> PlayedClock:
    played = PlayedClock()

    def wait(connections: Iterable[PlayedConnection], timeout_s: float) -> list[PlayedConnection]:
        ready = [connection for connection in connections if connection.responses]
        if not ready:
            played.sleep(timeout_s)
        return ready

    monkeypatch.setattr("catchment.client.produce.sender.time", played)
    monkeypatch.setattr("catchment.client.network.deadline.time", played)
    monkeypatch.setattr("catchment.client.produce.sender.wait", wait)
    return played


@pytest.fixture
def cluster(clock: PlayedClock) -> PlayedCluster:
    return PlayedCluster(clock)


@pytest.fixture
def sender(cluster: PlayedCluster) -> Sender:
    return Sender(cast("Cluster", cluster), None, None, DELIVERY_TIMEOUT_S)


def add(sender: Sender, clock: PlayedClock, topic_partitions: Iterable[TopicPartition]) -> None:
    for topic_partition in topic_partitions:
        sequence = sender.queue(topic_partition).next_sequence
        sender.add(topic_partition, ProducerBatch(b"batch", 1, sequence, clock.now_s + DELIVERY_TIMEOUT_S))


def test_an_unreachable_cluster_is_reported_in_time_with_many_partitions(
    cluster: PlayedCluster, clock: PlayedClock, sender: Sender
) -> None:
    began_s = clock.now_s
    cluster.codes = dict.fromkeys(PLACES, ErrorCode.not_leader_or_follower)
    add(sender, clock, PLACES)
    cluster.is_gone = True
    with pytest.raises(
        TimedOut, match=r"accepted no records in time: the played cluster is gone\. Check that the broker"
    ):
        sender.flush()
    assert clock.now_s - began_s < DELIVERY_TIMEOUT_S + 0.2
    assert cluster.refreshed <= 3


def test_a_partition_without_a_leader_does_not_delay_others(
    cluster: PlayedCluster, clock: PlayedClock, sender: Sender
) -> None:
    began_s = clock.now_s
    cluster.leaderless = set(PLACES[:1])
    add(sender, clock, PLACES[:4])
    assert clock.now_s == began_s
    assert {topic_partition for request in cluster.link.requests for topic_partition in request} == set(PLACES[1:4])
    with pytest.raises(
        TimedOut, match=r"partition 0 of topic topic accepted no records in time: topic-0 has no leader"
    ):
        sender.flush()


def test_an_election_ends_the_wait_for_a_leader(cluster: PlayedCluster, clock: PlayedClock, sender: Sender) -> None:
    cluster.leaderless = set(PLACES[:1])
    add(sender, clock, PLACES[:2])
    cluster.leaderless.clear()
    assert sender.flush() == dict.fromkeys(PLACES[:2], Written(0, 1, 1))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ErrorCode.not_enough_replicas, r"cannot write to partition 0 of topic topic: .*NOT_ENOUGH_REPLICAS"),
        (None, "the response of played:9092 lacks the partition"),
    ],
)
def test_the_last_reason_for_a_delay_is_in_the_timeout_error(
    cluster: PlayedCluster, clock: PlayedClock, sender: Sender, code: ErrorCode | None, reason: str
) -> None:
    cluster.codes = {PLACES[0]: code}
    add(sender, clock, PLACES[:1])
    with pytest.raises(TimedOut, match=f"accepted no records in time: {reason}"):
        sender.flush()


def test_batches_of_topics_without_an_id_yet_are_sent_later(
    cluster: PlayedCluster, clock: PlayedClock, sender: Sender
) -> None:
    cluster.failing_ids = 2
    add(sender, clock, PLACES[:2])
    assert sender.flush() == dict.fromkeys(PLACES[:2], Written(0, 1, 1))


def test_topics_of_old_brokers_that_have_no_ids_share_a_request(
    cluster: PlayedCluster, clock: PlayedClock, sender: Sender
) -> None:
    topic_partitions: list[TopicPartition] = [("one", 0), ("other", 0)]
    cluster.leaderless = set(topic_partitions)
    add(sender, clock, topic_partitions)
    cluster.leaderless.clear()
    assert sender.flush() == dict.fromkeys(topic_partitions, Written(0, 1, 1))
    assert cluster.link.requests == [topic_partitions]


def test_a_connection_without_a_response_is_closed_and_its_batches_are_sent_again(
    cluster: PlayedCluster, clock: PlayedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Sender(cast("Cluster", cluster), None, None, response_timeout_s=DELIVERY_TIMEOUT_S / 2)
    silent = PlayedConnection(lambda topic_partition: ErrorCode.none)
    monkeypatch.setattr(silent, "send", lambda request, version: None)
    answering, cluster.link = cluster.link, cast("Any", silent)
    add(sender, clock, PLACES[:2])
    cluster.link = answering
    assert sender.flush() == dict.fromkeys(PLACES[:2], Written(0, 1, 1))
