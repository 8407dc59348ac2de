"""Members of real clients come, go, stall, freeze and crash: the group goes on, loses no record and moves no more than it must."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.group_consumers import GROUP_CONSUMERS, ConfluentConsumer, GroupConsumer
from tests.compat.program import TIMEOUT_S, PythonProgram, until

_TOPIC = "shared"
_PARTITIONS = 6


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    settings = {
        "group.initial.rebalance.delay.ms": "100",
        # Members of the new protocol are told by the broker how often to speak and when they are missed.
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": "10000",
        "group.consumer.min.heartbeat.interval.ms": "300",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    with ChildBroker(tmp_path, settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)])[_TOPIC].result(30)
        yield running


class Feed:
    """Writes numbers without end, on a thread of its own, until told to finish."""

    def __init__(self, broker: ChildBroker) -> None:
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "enable.idempotence": True}
        )
        self._is_finished = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.count = 0

    def _run(self) -> None:
        while not self._is_finished.wait(0.005):
            self._producer.produce(_TOPIC, str(self.count).encode(), partition=self.count % _PARTITIONS)
            self._producer.poll(0)
            self.count += 1

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *error: object) -> None:
        self._is_finished.set()
        self._thread.join()

    def finish(self) -> int:
        """How many were written, all of them for certain."""
        self.__exit__()
        assert self._producer.flush(TIMEOUT_S) == 0
        return self.count


class Member(PythonProgram):
    """A member in a process of its own."""

    def __init__(self, client: str, broker: ChildBroker, directory: Path) -> None:
        super().__init__("group_member", [client, broker.bootstrap_servers, "group", _TOPIC], directory)

    def _events(self, name: str) -> list[Any]:
        events = map(json.loads, self.lines())
        return [event[name] for event in events if name in event]

    def assignment(self) -> set[int]:
        """What it last said that it owns."""
        return set((self._events("assigned") or [[]])[-1])

    def values(self) -> list[int]:
        return [value for values in self._events("read") for value in values]


class Commits:
    """The group's offsets, as an administrator sees them."""

    def __init__(self, broker: ChildBroker) -> None:
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def offsets(self) -> list[int]:
        partitions = [TopicPartition(_TOPIC, number) for number in range(_PARTITIONS)]
        asked = ConsumerGroupTopicPartitions("group", partitions)
        found = self._admin.list_consumer_group_offsets([asked])["group"].result(30)
        return [partition.offset for partition in found.topic_partitions or ()]


@pytest.mark.parametrize("client", list(GROUP_CONSUMERS))
def test_a_group_reads_all_though_members_join_leave_freeze_and_crash_and_the_broker_dies(
    broker: ChildBroker, tmp_path: Path, client: str
) -> None:
    everything = set(range(_PARTITIONS))
    one, two, three = (Member(client, broker, tmp_path / name) for name in ("one", "two", "three"))

    def are_shared_by(*members: Member) -> None:
        def is_shared() -> bool:
            owned = [member.assignment() for member in members]
            return all(owned) and sum(map(len, owned)) == _PARTITIONS and set.union(*owned) == everything

        until(is_shared, lambda: "\n".join(member.tail() for member in members))

    with ExitStack() as running:
        feed = running.enter_context(Feed(broker))
        running.enter_context(one)
        are_shared_by(one)
        running.enter_context(two)
        running.enter_context(three)
        are_shared_by(one, two, three)
        three.kill()
        are_shared_by(one, two)
        two.freeze()
        are_shared_by(one)
        two.thaw()
        are_shared_by(one, two)
        broker.kill()
        broker.start()
        three.start()
        are_shared_by(one, two, three)
        assert one.stop() == 0, one.tail()
        are_shared_by(two, three)
        count = feed.finish()
        ends = [(count - number + _PARTITIONS - 1) // _PARTITIONS for number in range(_PARTITIONS)]
        commits = Commits(broker)
        until(lambda: commits.offsets() == ends, lambda: f"{commits.offsets()} of {ends} is committed\n{two.tail()}")
        assert {*one.values(), *two.values(), *three.values()} == set(range(count))


@pytest.fixture(params=list(GROUP_CONSUMERS))
def member(request: pytest.FixtureRequest, broker: ChildBroker) -> Iterator[Callable[..., GroupConsumer]]:
    with ExitStack() as closing:

        def make(**options: Any) -> GroupConsumer:
            consumer_class: Any = GROUP_CONSUMERS[request.param]
            consumer: GroupConsumer = consumer_class(broker.bootstrap_servers, "group", _TOPIC, **options)
            closing.callback(consumer.close)
            return consumer

        yield make


def poll_until(condition: Callable[[], bool], *members: GroupConsumer, found: list[int] | None = None) -> None:
    """Let the members poll until the condition holds; what they read meanwhile goes into `found`."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, [one.assignment() for one in members]
        for one in members:
            values = map(int, one.poll())
            if found is not None:
                found.extend(values)


def test_a_member_that_stops_polling_is_replaced_and_taken_back(
    broker: ChildBroker, member: Callable[..., GroupConsumer]
) -> None:
    busy, stalled = member(), member(max_poll_interval_ms=10_000)
    found: list[int] = []

    def is_shared() -> bool:
        return len(busy.assignment()) == len(stalled.assignment()) == _PARTITIONS // 2

    poll_until(is_shared, busy, stalled)
    with Feed(broker) as feed:
        poll_until(lambda: len(busy.assignment()) == _PARTITIONS, busy, found=found)
        poll_until(is_shared, busy, stalled, found=found)
        count = feed.finish()
    poll_until(lambda: set(found) == set(range(count)), busy, stalled, found=found)


class CountingConsumer(ConfluentConsumer):
    """Counts the partitions that it was given and that were taken from it."""

    def __init__(self, broker: ChildBroker, **options: Any) -> None:
        super().__init__(broker.bootstrap_servers, "group", _TOPIC, **options)
        self.given: list[int] = []
        self.taken: list[int] = []
        self._consumer.subscribe(
            [_TOPIC],
            on_assign=lambda _, partitions: self.given.extend(each.partition for each in partitions),
            on_revoke=lambda _, partitions: self.taken.extend(each.partition for each in partitions),
            on_lost=lambda _, partitions: self.taken.extend(each.partition for each in partitions),
        )


@pytest.fixture
def counting(broker: ChildBroker) -> Iterator[Callable[..., CountingConsumer]]:
    with ExitStack() as closing:

        def make(**options: Any) -> CountingConsumer:
            consumer = CountingConsumer(broker, **options)
            closing.callback(consumer.close)
            return consumer

        yield make


def test_cooperative_members_give_up_only_what_moves(counting: Callable[..., CountingConsumer]) -> None:
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"}

    def each_has(count: int, *members: CountingConsumer) -> Callable[[], bool]:
        return lambda: [len(one.assignment()) for one in members] == [count] * len(members)

    first = counting(**cooperative)
    poll_until(each_has(6, first), first)
    second = counting(**cooperative)
    poll_until(each_has(3, first, second), first, second)
    assert (len(first.given), len(first.taken), second.taken) == (6, 3, [])
    third = counting(**cooperative)
    poll_until(each_has(2, first, second, third), first, second, third)
    assert (len(first.given), len(first.taken), len(second.taken), third.taken) == (6, 4, 1, [])
    third.close()
    poll_until(each_has(3, first, second), first, second)
    assert (len(first.given), len(first.taken), len(second.taken)) == (7, 4, 1)


def test_a_static_member_that_returns_disturbs_nobody(
    broker: ChildBroker, counting: Callable[..., CountingConsumer]
) -> None:
    first, second = counting(group_instance_id="first"), counting(group_instance_id="second")

    def is_shared() -> bool:
        return len(first.assignment()) == len(second.assignment()) == _PARTITIONS // 2

    poll_until(is_shared, first, second)
    owned, before = first.assignment(), (list(second.given), list(second.taken))
    first.close()
    again = counting(group_instance_id="first")
    poll_until(lambda: again.assignment() == owned, again, second)
    found: list[int] = []
    with Feed(broker) as feed:
        poll_until(lambda: feed.count > 100, again, second, found=found)
        count = feed.finish()
    poll_until(lambda: sorted(found) == list(range(count)), again, second, found=found)
    assert (second.given, second.taken) == before
