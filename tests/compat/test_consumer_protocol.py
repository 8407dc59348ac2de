"""The consumer protocol of KIP-848 with real clients, alone and next to clients of the classic protocol."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.compat.clients.client import TIMEOUT_S
from tests.compat.java_tool import java_tool

from catchment.testing.embedded import Broker

_numbers = itertools.count(1)
_COUNT = 40
_PARTITIONS = 4
_HEARTBEAT_MS = 300


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("consumers")


@pytest.fixture(scope="module")
def broker(data_directory: Path) -> Iterator[Broker]:
    settings = {
        "group.initial.rebalance.delay.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": _HEARTBEAT_MS,
        "group.consumer.min.session.timeout.ms": 1_000,
        "group.consumer.session.timeout.ms": 6_000,
    }
    with Broker(data_directory, settings=settings) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic with some records in each of its partitions."""
    name = f"read-{next(_numbers)}"
    broker.create_topic(name, _PARTITIONS)
    fill(broker, name)
    return name


def fill(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(_COUNT):
        producer.produce(topic, str(number).encode(), partition=number % _PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


class Member:
    def __init__(self, broker: Broker, group: str, topic: str, options: dict[str, Any]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                **options,
            }
        )
        self._consumer.subscribe([topic])
        self.values: list[int] = []

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def poll(self) -> None:
        for message in self._consumer.consume(100, 0.05):
            if message.error() is None:
                self.values.append(int(message.value() or b""))

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def member(broker: Broker, topic: str) -> Iterator[Callable[..., Member]]:
    """Makes members of one group, and closes them."""
    made: list[Member] = []

    def make(protocol: str = "consumer", subscribe: str = topic, **options: Any) -> Member:
        given = {name.replace("_", "."): value for name, value in options.items()}
        if protocol == "classic":
            given |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": _HEARTBEAT_MS}
        made.append(Member(broker, f"group-of-{topic}", subscribe, {"group.protocol": protocol, **given}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def until(condition: Callable[[], bool], *members: Member) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, [one.partitions for one in members]
        for one in members:
            one.poll()


def shared(*members: Member) -> Callable[[], bool]:
    """Every member has a share, and together they have all partitions."""

    def is_shared() -> bool:
        shares = [one.partitions for one in members]
        return all(shares) and len(set().union(*shares)) == sum(map(len, shares)) == _PARTITIONS

    return is_shared


def fewest_until_shared(first: Member, *others: Member) -> int:
    """The fewest partitions that the first member had until every member had a share."""
    kept: list[int] = []

    def is_shared() -> bool:
        kept.append(len(first.partitions))
        return shared(first, *others)()

    until(is_shared, first, *others)
    return min(kept)


def kind(broker: Broker, topic: str) -> str:
    """The type of the group in an admin client."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    (found,) = [group for group in listed.valid if group.group_id == f"group-of-{topic}"]
    return str(found.type.name).lower()


def test_a_group_reads_commits_and_resumes(broker: Broker, topic: str, member: Callable[..., Member]) -> None:
    first = member()
    until(lambda: len(first.values) == _COUNT, first)
    assert sorted(first.values) == list(range(_COUNT))
    first.commit()
    first.close()
    fill(broker, topic)
    second = member()
    until(lambda: len(second.values) == _COUNT, second)
    assert sorted(second.values) == list(range(_COUNT))


def test_members_share_and_take_over(member: Callable[..., Member]) -> None:
    first = member()
    until(shared(first), first)
    second, third = member(), member()
    assert fewest_until_shared(first, second, third) >= 1, "the first member went on reading all the time"
    third.close()
    second.close()
    until(shared(first), first)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_choose_their_assignor(member: Callable[..., Member], assignor: str) -> None:
    members = [member(group_remote_assignor=assignor) for _ in range(2)]
    until(shared(*members), *members)


def test_a_regular_expression_follows_topics_that_come(
    broker: Broker, topic: str, member: Callable[..., Member]
) -> None:
    one = member(subscribe=f"^{topic}(-.*)?$")
    until(shared(one), one)
    broker.create_topic(f"{topic}-later", 1)
    until(lambda: (f"{topic}-later", 0) in one.partitions, one)


def test_new_partitions_are_read(broker: Broker, topic: str, member: Callable[..., Member]) -> None:
    one = member()
    until(shared(one), one)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(topic, _PARTITIONS + 1)]).values():
        future.result(TIMEOUT_S)
    until(lambda: (topic, _PARTITIONS) in one.partitions, one)


def test_a_static_member_that_restarts_takes_its_partitions_back(member: Callable[..., Member]) -> None:
    first, second = member(group_instance_id="one"), member(group_instance_id="two")
    until(shared(first, second), first, second)
    owned = first.partitions
    first.close()
    again = member(group_instance_id="one")
    until(shared(again, second), again, second)
    assert again.partitions == owned


def test_a_restart_of_the_broker_ends_no_group(broker: Broker, topic: str, member: Callable[..., Member]) -> None:
    one = member()
    until(lambda: len(one.values) == _COUNT, one)
    broker.restart()
    fill(broker, topic)
    until(lambda: len(one.values) == 2 * _COUNT, one)
    one.commit()


def test_a_rolling_upgrade_and_the_way_back(broker: Broker, topic: str, member: Callable[..., Member]) -> None:
    old = [member("classic"), member("classic")]
    until(shared(*old), *old)
    assert kind(broker, topic) == "classic"
    new = [member()]
    until(shared(*old, *new), *old, *new)
    assert kind(broker, topic) == "consumer"
    old.pop().close()
    new.append(member())
    until(shared(*old, *new), *old, *new)
    old.pop().close()
    until(shared(*new), *new)
    old.append(member("classic"))
    until(shared(*old, *new), *old, *new)
    assert kind(broker, topic) == "consumer"
    new.pop().close()
    new.pop().close()
    until(shared(*old), *old)
    assert kind(broker, topic) == "classic"


def test_a_cooperative_classic_member_keeps_reading_through_the_upgrade(member: Callable[..., Member]) -> None:
    old = member("classic", partition_assignment_strategy="cooperative-sticky")
    until(shared(old), old)
    new = member()
    assert fewest_until_shared(old, new) >= 1


def test_javas_consumer_and_tools_speak_the_new_protocol(broker: Broker, topic: str) -> None:
    server = ("--bootstrap-server", broker.bootstrap_servers)
    group = ("--group", f"java-{topic}")
    printed = java_tool(
        "consumer.ConsoleConsumer",
        *server,
        *group,
        "--command-property",
        "group.protocol=consumer",
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        str(_COUNT),
    )
    assert sorted(map(int, printed.split())) == list(range(_COUNT))

    def tool(*arguments: str) -> str:
        return java_tool("consumer.group.ConsumerGroupCommand", *server, *arguments).decode()

    assert re.search(rf"java-{topic}\s+Consumer", tool("--list", "--type"))
    assert re.search(rf"{topic}\s+0\s+10\s+10\s+0", tool("--describe", *group))
    assert "Empty" in tool("--describe", "--state", *group)
    assert "was successful" in tool("--delete", *group)


def test_kafkas_tool_describes_members_of_both_protocols(
    broker: Broker, topic: str, member: Callable[..., Member]
) -> None:
    members = [member(), member("classic")]
    until(shared(*members), *members)
    described = java_tool(
        "consumer.group.ConsumerGroupCommand",
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--describe",
        "--members",
        "--verbose",
        "--group",
        f"group-of-{topic}",
    ).decode()
    assert len(re.findall(rf"group-of-{topic}\s", described)) == 2
    assert re.search(rf"\s{topic}:\d", described)


def test_the_records_are_read_by_kafkas_own_decoder(
    topic: str, data_directory: Path, member: Callable[..., Member]
) -> None:
    members = [member(subscribe=f"^{topic}$", group_instance_id="dumped"), member("classic")]
    until(shared(*members), *members)
    logs = ",".join(
        str(path) for path in sorted(data_directory.glob("__consumer_offsets-*/*.log")) if path.stat().st_size
    )
    dumped = java_tool("DumpLogSegments", "--offsets-decoder", "--files", logs, with_errors=True).decode()
    assert "Exception" not in dumped
    mine = [line for line in dumped.splitlines() if f'"groupId":"group-of-{topic}"' in line]
    for pattern in (
        r'"type":"3".*"epoch":\d+.*"metadataHash":-?\d+',
        r'"type":"5".*"instanceId":"dumped"',
        r'"type":"5".*"classicMemberMetadata":\{"sessionTimeoutMs":6000',
        r'"type":"6".*"assignmentEpoch":\d+',
        r'"type":"7".*"topicPartitions":\[\{"topicId":"[^"]+","partitions":\[',
        r'"type":"8".*"memberEpoch":\d+.*"assignedPartitions":\[\{.*"assignmentEpochs":\[',
        rf'"type":"16".*"topics":\["{topic}"\]',
    ):
        assert any(re.search(pattern, line) for line in mine), (pattern, mine)
