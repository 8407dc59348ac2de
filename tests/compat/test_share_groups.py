"""Share groups with real clients: librdkafka's and Java's share consumers, and what Kafka's own tools make of the groups."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8
from tests.broker.handlers.wire import Wire
from tests.compat.clients.client import TIMEOUT_S
from tests.compat.java_tool import java_tool

from catchment.broker.admin.config_changes import ResourceType
from catchment.testing.embedded import Broker

_numbers = itertools.count(1)
_COUNT = 60
_ROOT = Path(__file__).parents[2]
_SETTINGS = {
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": 2000,
    "offsets.topic.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
}
_DECODED = re.compile(r'"type":"(\d+)","data":\{"groupId":"([^"]+)"')


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("share-groups")


@pytest.fixture(scope="module")
def broker(data_directory: Path) -> Iterator[Broker]:
    with Broker(data_directory, settings=_SETTINGS) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of one partition, and a group named after it that reads it from its beginning."""
    name = f"queue-{next(_numbers)}"
    broker.create_topic(name)
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=i8(0), value="earliest")
    resource = AlterConfigsResource(
        resource_type=i8(ResourceType.GROUP), resource_name=group_of(name), configs=(config,)
    )
    with Wire(broker) as wire:
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)
    assert answer.responses[0].error_code is ErrorCode.none
    return name


@pytest.fixture
def member(broker: Broker, topic: str) -> Iterator[Callable[[], ShareConsumer]]:
    """Makes members of the topic's group that acknowledge each record by hand, and closes those that are left."""
    made: list[ShareConsumer] = []

    def make() -> ShareConsumer:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group_of(topic),
                "share.acknowledgement.mode": "explicit",
            }
        )
        consumer.subscribe([topic])
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close()


def group_of(topic: str) -> str:
    return f"workers-of-{topic}"


def fill(broker: Broker, topic: str, numbers: range) -> None:
    # What is flushed together shall be one batch.
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 100})
    for number in numbers:
        producer.produce(topic, str(number).encode())
        if number % 5 == 4:
            # Batches are acquired as a whole, so there must be several for several members to get some.
            assert producer.flush(TIMEOUT_S) == 0
    assert producer.flush(TIMEOUT_S) == 0


def take(consumer: ShareConsumer, timeout_s: float = 0.2) -> list[Message]:
    messages = consumer.poll(timeout_s)
    assert all(message.error() is None for message in messages)
    return list(messages)


def take_until(count: int, consumer: ShareConsumer) -> list[Message]:
    """At least so many records, without a word about them to the broker."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not (taken := take(consumer)):
        assert time.monotonic() < deadline_s
    assert len(taken) >= count
    return taken


def value(message: Message) -> int:
    return int(message.value() or b"-1")


def finish(consumer: ShareConsumer, messages: list[Message], kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
    for message in messages:
        consumer.acknowledge(message, kind)
    consumer.commit_sync(TIMEOUT_S)


def work_off(count: int, *consumers: ShareConsumer) -> list[list[Message]]:
    """Let the members work until so many records are done; what each has done."""
    done: list[list[Message]] = [[] for _ in consumers]
    deadline_s = time.monotonic() + TIMEOUT_S
    while sum(map(len, done)) < count:
        assert time.monotonic() < deadline_s, [len(mine) for mine in done]
        for mine, consumer in zip(done, consumers, strict=True):
            taken = take(consumer)
            finish(consumer, taken)
            mine += taken
    return done


def share_groups(broker: Broker, *arguments: str) -> str:
    output = java_tool(
        "ShareGroupCommand",
        *("--bootstrap-server", broker.bootstrap_servers, *arguments),
        package="org.apache.kafka.tools.consumer.group",
        with_errors=True,
    )
    return output.decode()


def test_members_share_one_partition_and_each_record_is_done_once(
    broker: Broker, topic: str, member: Callable[[], ShareConsumer]
) -> None:
    consumers = [member() for _ in range(3)]
    fill(broker, topic, range(_COUNT))
    done = work_off(_COUNT, *consumers)
    for consumer in consumers:
        assert take(consumer) == []
    assert Counter(value(message) for mine in done for message in mine) == Counter(range(_COUNT))
    assert all(message.delivery_count() == 1 for mine in done for message in mine)


def test_what_a_killed_member_had_taken_comes_again(
    broker: Broker, topic: str, member: Callable[[], ShareConsumer]
) -> None:
    fill(broker, topic, range(_COUNT))
    command = [sys.executable, "-m", "tests.compat.share_worker", broker.bootstrap_servers, group_of(topic), topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT) as worker:
        assert worker.stdout is not None
        first = int(worker.stdout.readline())
        worker.kill()
    (done,) = work_off(_COUNT, member())
    assert Counter(map(value, done)) == Counter(range(_COUNT))
    assert {message.delivery_count() for message in done if value(message) == first} == {2}


def test_a_released_record_comes_again_and_a_rejected_one_does_not(
    broker: Broker, topic: str, member: Callable[[], ShareConsumer]
) -> None:
    fill(broker, topic, range(2))
    consumer = member()
    released, rejected = take_until(2, consumer)
    consumer.acknowledge(released, AcknowledgeType.RELEASE)
    consumer.acknowledge(rejected, AcknowledgeType.REJECT)
    consumer.commit_sync(TIMEOUT_S)
    (again,) = take_until(1, consumer)
    assert (value(again), again.delivery_count()) == (value(released), 2)
    finish(consumer, [again])


def test_what_is_done_stays_done_when_the_broker_restarts(
    broker: Broker, topic: str, member: Callable[[], ShareConsumer]
) -> None:
    fill(broker, topic, range(10))
    consumer = member()
    done = take_until(1, consumer)
    finish(consumer, done)
    broker.restart()
    (rest,) = work_off(10 - len(done), consumer) if len(done) < 10 else ([],)
    fill(broker, topic, range(10, 20))
    (new,) = work_off(10, consumer)
    assert Counter(map(value, [*done, *rest, *new])) == Counter(range(20))


def test_javas_share_consumer_reads_and_the_tools_tell_of_its_group(broker: Broker, topic: str) -> None:
    fill(broker, topic, range(10))
    group = group_of(topic)
    read = java_tool(
        "ConsoleShareConsumer",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--group", group, "--max-messages", "10"),
        package="org.apache.kafka.tools.consumer",
    )
    assert sorted(map(int, read.split())) == list(range(10))
    assert group in share_groups(broker, "--list").split()
    described = share_groups(broker, "--describe", "--group", group, "--offsets")
    assert re.search(rf"{group}\s+{topic}\s+0\s+\d+\s+0\s", described), described
    assert re.search(
        rf"{group}\s+\S+\s+\S*\s*Empty\s+0", share_groups(broker, "--describe", "--group", group, "--state")
    )


def test_the_tools_show_members_with_their_partitions_and_delete_a_group_that_has_none(
    broker: Broker, topic: str, member: Callable[[], ShareConsumer]
) -> None:
    fill(broker, topic, range(1))
    consumer = member()
    finish(consumer, take_until(1, consumer))
    group = group_of(topic)
    members = share_groups(broker, "--describe", "--group", group, "--members")
    assert re.search(rf"{group}\s+\S+\s+/127\.0\.0\.1\s+rdkafka\s+1\s+{topic}:0", members), members
    assert "not empty" in share_groups(broker, "--delete", "--group", group).lower()
    consumer.close()
    assert "successful" in share_groups(broker, "--delete", "--group", group)
    assert group not in share_groups(broker, "--list").split()


def test_settings_of_a_group_are_set_and_shown_by_kafkas_tool(broker: Broker) -> None:
    group = ("--bootstrap-server", broker.bootstrap_servers, "--group", "set-by-tool")
    change = ("--alter", "--add-config", "share.isolation.level=read_committed,share.record.lock.duration.ms=5000")
    java_tool("ConfigCommand", *group, *change, package="kafka.admin")
    shown = java_tool("ConfigCommand", *group, "--describe", package="kafka.admin").decode()
    assert "share.isolation.level=read_committed" in shown
    assert "share.record.lock.duration.ms=5000" in shown


def test_kafkas_decoder_reads_the_records_of_share_groups(
    broker: Broker, data_directory: Path, topic: str, member: Callable[[], ShareConsumer]
) -> None:
    fill(broker, topic, range(1))
    consumer = member()
    finish(consumer, take_until(1, consumer))
    logs = ",".join(str(log) for log in sorted(data_directory.glob("__consumer_offsets-*/*.log")))
    dumped = java_tool("DumpLogSegments", "--offsets-decoder", "--files", logs, with_errors=True).decode()
    assert not re.search(r"mismatch|corrupt|exception|could not|unknown", dumped, re.IGNORECASE), dumped[-3000:]
    kinds = {int(kind) for kind, group in _DECODED.findall(dumped) if group == group_of(topic)}
    assert kinds == {10, 11, 12, 13, 14, 15}
    assert re.search(rf'"initializedTopics":\[\{{"topicId":"[^"]+","topicName":"{topic}","partitions":\[0\]', dumped)
