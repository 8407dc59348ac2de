"""Members of real clients in processes of their own join, leave, freeze and crash, and so does the broker: no record is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.group_consumers import GROUP_CONSUMERS
from tests.compat.fed_topic import PARTITIONS, TOPIC, Feed, broker_with_topic
from tests.compat.program import PythonProgram, until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with broker_with_topic(tmp_path) as running:
        yield running


class Member(PythonProgram):
    """A member in a process of its own."""

    def __init__(self, client: str, broker: ChildBroker, directory: Path) -> None:
        super().__init__("group_member", [client, broker.bootstrap_servers, "group", TOPIC], directory)

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
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        asked = ConsumerGroupTopicPartitions("group", partitions)
        found = self._admin.list_consumer_group_offsets([asked])["group"].result(30)
        return [partition.offset for partition in found.topic_partitions or ()]


@pytest.mark.parametrize("client", list(GROUP_CONSUMERS))
def test_a_group_reads_all_though_members_join_leave_freeze_and_crash_and_the_broker_dies(
    broker: ChildBroker, tmp_path: Path, client: str
) -> None:
    everything = set(range(PARTITIONS))
    one, two, three = (Member(client, broker, tmp_path / name) for name in ("one", "two", "three"))

    def are_shared_by(*members: Member) -> None:
        def is_shared() -> bool:
            owned = [member.assignment() for member in members]
            return all(owned) and sum(map(len, owned)) == PARTITIONS and set.union(*owned) == everything

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
        ends = [(count - number + PARTITIONS - 1) // PARTITIONS for number in range(PARTITIONS)]
        commits = Commits(broker)
        until(lambda: commits.offsets() == ends, lambda: f"{commits.offsets()} of {ends} is committed\n{two.tail()}")
        assert {*one.values(), *two.values(), *three.values()} == set(range(count))
