"""MirrorMaker 2 between a Catchment broker and Apache Kafka, both ways at once: records, offsets of groups, settings and partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.java_tool import require_java
from tests.compat.program import TIMEOUT_S, JavaProgram

from catchment.bench.peers.kafka import KafkaServer
from catchment.ports.network import free_port

# The first to run fetches the jars.
pytestmark = pytest.mark.timeout(1500)
_PARTITIONS = 2
_AT_ONCE = 1000
_RETENTION_MS = "7200000"
_SECONDS = (
    "refresh.topics.interval.seconds",
    "refresh.groups.interval.seconds",
    "sync.topic.configs.interval.seconds",
    "sync.group.offsets.interval.seconds",
    "emit.checkpoints.interval.seconds",
    "offset.flush.interval.seconds",
)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[ChildBroker]:
    with ChildBroker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    require_java()
    with KafkaServer({"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


class Side:
    """One of the clusters: what is written to its topic, and what is found in the copy on the other side."""

    def __init__(self, name: str, bootstrap_servers: str, other: str, other_bootstrap_servers: str) -> None:
        self.name, self.copy = f"from-{name}", f"{name}.from-{name}"
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._other_admin = AdminClient({"bootstrap.servers": other_bootstrap_servers})
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        self._servers, self._other_servers = bootstrap_servers, other_bootstrap_servers
        self._reader: CommittedReader | None = None
        self.count = 0
        self.found: list[list[int]] = [[] for _ in range(_PARTITIONS)]
        topic = NewTopic(self.name, _PARTITIONS, 1, config={"retention.ms": _RETENTION_MS})
        self._admin.create_topics([topic])[self.name].result(30)

    def write(self) -> None:
        for number in range(self.count, self.count + _AT_ONCE):
            self._producer.produce(self.name, str(number).encode(), partition=number % _PARTITIONS)
        self.count += _AT_ONCE
        assert self._producer.flush(TIMEOUT_S) == 0

    def commit(self, offset: int) -> None:
        """As a group would that has read so far."""
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": self._group})
        consumer.commit(offsets=[TopicPartition(self.name, 0, offset)], asynchronous=False)
        consumer.close()

    @property
    def _group(self) -> str:
        return f"readers-{self.name}"

    def mirrored(self) -> int:
        if self._reader is None:
            if self.copy not in self._other_admin.list_topics(timeout=30).topics:
                return 0
            self._reader = CommittedReader(self._other_servers, self.copy, _PARTITIONS)
        for record in self._reader.poll():
            self.found[record.partition].append(int(record.value))
        return sum(map(len, self.found))

    def synced_offset(self) -> int:
        """Where the group would go on on the other side; 0 as long as nothing is known there."""
        request = ConsumerGroupTopicPartitions(self._group, [TopicPartition(self.copy, 0)])
        [answer] = self._other_admin.list_consumer_group_offsets([request]).values()
        [partition] = answer.result(30).topic_partitions
        return max(int(partition.offset), 0)

    def value_at(self, offset: int) -> int:
        """The first value that a group reads on the other side that goes on there."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._other_servers,
                "group.id": "never-committed",
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(self.copy, 0, offset)])
        [message] = consumer.consume(1, TIMEOUT_S)
        consumer.close()
        return int(message.value() or b"")

    def grow(self) -> None:
        self._admin.create_partitions([NewPartitions(self.name, _PARTITIONS + 1)])[self.name].result(30)

    def copied_partitions(self) -> int:
        return len(self._other_admin.list_topics(self.copy, timeout=30).topics[self.copy].partitions)

    def copied_setting(self, name: str) -> str | None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.copy)
        value = self._other_admin.describe_configs([resource])[resource].result(30)[name].value
        return None if value is None else str(value)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.__exit__(None, None, None)


def mirror_maker(ours: ChildBroker, kafka: KafkaServer, directory: Path) -> JavaProgram:
    settings = {
        "clusters": "ours,kafka",
        "ours.bootstrap.servers": ours.bootstrap_servers,
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        **{f"{flow}.enabled": "true" for flow in ("ours->kafka", "kafka->ours")},
        "ours->kafka.topics": "from-ours",
        "kafka->ours.topics": "from-kafka",
        "groups": "readers-.*",
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": "10",
        **dict.fromkeys(_SECONDS, "1"),
        **{f"{name}.exactly.once.source.support": "enabled" for name in ("ours", "kafka")},
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "tasks.max": "2",
        # A process that was killed is missed sooner than by default.
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "plugin.discovery": "service_load",
        "replication.factor": "1",
        **{f"{name}.topic.replication.factor": "1" for name in ("checkpoints", "heartbeats", "offset-syncs")},
        **{f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")},
        **{f"{name}.storage.partitions": "1" for name in ("offset", "status")},
    }
    path = directory / "mm2.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    return JavaProgram(main, [str(path)], directory / "mirror", needs_applications=True)


def test_each_record_is_mirrored_once_with_groups_settings_and_partitions_though_it_and_the_broker_are_killed(
    ours: ChildBroker, kafka: KafkaServer, tmp_path: Path
) -> None:
    mirror = mirror_maker(ours, kafka, tmp_path)
    sides = [
        Side("ours", ours.bootstrap_servers, "kafka", kafka.bootstrap_servers),
        Side("kafka", kafka.bootstrap_servers, "ours", ours.bootstrap_servers),
    ]

    def have_mirrored(missing: int = 0) -> bool:
        return all(side.mirrored() >= side.count - missing for side in sides)

    with mirror:
        for side in sides:
            side.write()
        mirror.until(have_mirrored)
        for side in sides:
            side.commit(300)
            assert side.copied_setting("retention.ms") == _RETENTION_MS
        mirror.until(lambda: all(side.synced_offset() > 0 for side in sides))
        for side in sides:
            # A group that moves over skips nothing; it may read a little again.
            assert 0 < side.value_at(side.synced_offset()) <= 300 * _PARTITIONS

        for side in sides:
            side.write()
        mirror.until(lambda: have_mirrored(missing=_AT_ONCE - 1))
        mirror.kill()
        mirror.start()
        for side in sides:
            side.write()
        mirror.until(lambda: have_mirrored(missing=_AT_ONCE - 1))
        ours.kill()
        ours.start()
        mirror.until(have_mirrored)
        for side in sides:
            side.grow()
        mirror.until(lambda: all(side.copied_partitions() == _PARTITIONS + 1 for side in sides))
        assert mirror.is_alive, mirror.tail()
    for side in sides:
        side.mirrored()
        side.close()
        assert side.found == [list(range(number, side.count, _PARTITIONS)) for number in range(_PARTITIONS)], side.name
