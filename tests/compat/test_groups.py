"""Consumer groups with real clients: join, share, commit, resume, come and go; and what Kafka's own tools make of them."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.compat.clients.client import TIMEOUT_S, forget_refused_sockets
from tests.compat.clients.group_consumers import GROUP_CONSUMERS, ConfluentConsumer, GroupConsumer, poll_together
from tests.compat.java_tool import java_tool

from catchment.testing.embedded import Broker

_numbers = itertools.count(1)
_COUNT = 20


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("groups")


@pytest.fixture(scope="module")
def broker(data_directory: Path) -> Iterator[Broker]:
    with Broker(data_directory, settings={"group.initial.rebalance.delay.ms": 100}) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of two partitions with some records in each."""
    name = f"shared-{next(_numbers)}"
    broker.create_topic(name, 2)
    fill(broker, name, range(_COUNT))
    return name


@pytest.fixture(params=list(GROUP_CONSUMERS))
def member(
    request: pytest.FixtureRequest, broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[..., GroupConsumer]]:
    """Makes members of one group, and closes those that are left."""
    made: list[GroupConsumer] = []

    def make(**options: Any) -> GroupConsumer:
        consumer_class: Any = GROUP_CONSUMERS[request.param]
        made.append(consumer_class(broker.bootstrap_servers, f"group-of-{topic}", topic, **options))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()
    made.clear()
    forget_refused_sockets(caplog)


def fill(broker: Broker, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0


def until(condition: Callable[[], bool], *members: GroupConsumer) -> list[bytes]:
    """Let the members poll until the condition holds; what they read meanwhile."""
    deadline_s = time.monotonic() + TIMEOUT_S
    found: list[bytes] = []
    while not condition():
        assert time.monotonic() < deadline_s, [one.assignment() for one in members]
        found += poll_together(members)
    return found


def read(count: int, *members: GroupConsumer) -> list[int]:
    """So many records, in order of their values."""
    deadline_s = time.monotonic() + TIMEOUT_S
    found: list[bytes] = []
    while len(found) < count:
        assert time.monotonic() < deadline_s, f"{len(found)} of {count} records came"
        found += poll_together(members)
    return sorted(map(int, found))


def test_a_group_resumes_where_it_committed(broker: Broker, topic: str, member: Callable[..., GroupConsumer]) -> None:
    first = member()
    assert read(_COUNT, first) == list(range(_COUNT))
    first.commit()
    fill(broker, topic, range(_COUNT, 2 * _COUNT))
    assert read(_COUNT, first) == list(range(_COUNT, 2 * _COUNT))
    first.close()
    second = member()
    assert read(_COUNT, second) == list(range(_COUNT, 2 * _COUNT))


def test_members_share_the_partitions_and_take_over_from_one_that_leaves(
    member: Callable[..., GroupConsumer],
) -> None:
    first, second = member(), member()
    until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
    assert first.assignment() | second.assignment() == {0, 1}
    first.close()
    until(lambda: second.assignment() == {0, 1}, second)


def test_a_member_seeks_back(member: Callable[..., GroupConsumer]) -> None:
    one = member()
    read(_COUNT, one)
    one.seek(0, 5)
    assert read(5, one) == [10, 12, 14, 16, 18]


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_restart_of_the_broker_ends_no_group(
    broker: Broker, topic: str, member: Callable[..., GroupConsumer]
) -> None:
    one = member()
    read(_COUNT, one)
    one.commit()
    broker.restart()
    fill(broker, topic, range(_COUNT, 2 * _COUNT))
    assert read(_COUNT, one) == list(range(_COUNT, 2 * _COUNT))
    one.commit()


@pytest.fixture
def confluent(broker: Broker, topic: str) -> Iterator[Callable[..., ConfluentConsumer]]:
    made: list[ConfluentConsumer] = []

    def make(**options: Any) -> ConfluentConsumer:
        made.append(ConfluentConsumer(broker.bootstrap_servers, f"group-of-{topic}", topic, **options))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


def test_cooperative_members_keep_what_they_need_not_give_away(confluent: Callable[..., ConfluentConsumer]) -> None:
    first = confluent(partition_assignment_strategy="cooperative-sticky")
    until(lambda: first.assignment() == {0, 1}, first)
    second = confluent(partition_assignment_strategy="cooperative-sticky")
    kept: list[set[int]] = []

    def is_shared() -> bool:
        kept.append(first.assignment())
        return len(first.assignment()) == len(second.assignment()) == 1

    until(is_shared, first, second)
    assert all(kept), "the first member was without partitions in between"


def test_a_static_member_that_restarts_takes_its_partitions_back(
    broker: Broker, topic: str, confluent: Callable[..., ConfluentConsumer]
) -> None:
    first, second = confluent(group_instance_id="one"), confluent(group_instance_id="two")
    until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
    owned = first.assignment()
    first.close()
    again = confluent(group_instance_id="one")
    until(lambda: bool(again.assignment()), again, second)
    assert again.assignment() == owned
    assert len(second.assignment()) == 1


def test_kafkas_own_tools_see_and_move_a_group(broker: Broker, topic: str) -> None:
    server = ("--bootstrap-server", broker.bootstrap_servers)
    group = ("--group", f"java-{topic}")
    classic = ("--command-property", "group.protocol=classic")
    printed = java_tool(
        "consumer.ConsoleConsumer",
        *server,
        *group,
        *classic,
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        str(_COUNT),
    )
    assert sorted(map(int, printed.split())) == list(range(_COUNT))

    def tool(*arguments: str) -> str:
        return java_tool("consumer.group.ConsumerGroupCommand", *server, *arguments).decode()

    assert f"java-{topic}" in tool("--list")
    assert re.search(rf"{topic}\s+0\s+10\s+10\s+0", tool("--describe", *group))
    assert "Empty" in tool("--describe", "--state", *group)
    tool("--reset-offsets", "--to-offset", "3", "--topic", topic, "--execute", *group)
    assert re.search(rf"{topic}\s+1\s+3\s+10\s+7", tool("--describe", *group))
    tool("--delete-offsets", "--topic", f"{topic}:0", *group)
    assert "was successful" in tool("--delete", *group)


def test_the_offsets_topic_is_read_by_kafkas_own_decoder(
    broker: Broker, topic: str, data_directory: Path, confluent: Callable[..., ConfluentConsumer]
) -> None:
    one = confluent(group_instance_id="dumped")
    read(_COUNT, one)
    one.commit()
    logs = ",".join(
        str(path) for path in sorted(data_directory.glob("__consumer_offsets-*/*.log")) if path.stat().st_size
    )
    dumped = java_tool("DumpLogSegments", "--offsets-decoder", "--files", logs, with_errors=True).decode()
    assert "Exception" not in dumped
    assert re.search(rf'"group":"group-of-{topic}","topic":"{topic}","partition":0.*"offset":10', dumped)
    assert re.search(rf'"group":"group-of-{topic}".*"protocolType":"consumer".*"groupInstanceId":"dumped"', dumped)
