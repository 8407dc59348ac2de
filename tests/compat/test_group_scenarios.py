"""Members of real clients come, go and stall: the group continues, loses no record and moves no more partitions than necessary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.group_consumers import GROUP_CONSUMERS, ConfluentConsumer, GroupConsumer, poll_together
from tests.compat.fed_topic import PARTITIONS, TOPIC, Feed, broker_with_topic
from tests.compat.program import TIMEOUT_S


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with broker_with_topic(tmp_path) as running:
        yield running


@pytest.fixture(params=list(GROUP_CONSUMERS))
def member(request: pytest.FixtureRequest, broker: ChildBroker) -> Iterator[Callable[..., GroupConsumer]]:
    with ExitStack() as closing:

        def make(**options: Any) -> GroupConsumer:
            consumer_class: Any = GROUP_CONSUMERS[request.param]
            consumer: GroupConsumer = consumer_class(broker.bootstrap_servers, "group", TOPIC, **options)
            closing.callback(consumer.close)
            return consumer

        yield make


def poll_until(condition: Callable[[], bool], *members: GroupConsumer, found: list[int] | None = None) -> None:
    """Let the members poll until the condition holds; what they read meanwhile goes into `found`."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, [one.assignment() for one in members]
        values = map(int, poll_together(members))
        if found is not None:
            found.extend(values)


def test_a_member_that_stops_polling_is_replaced_and_taken_back(
    broker: ChildBroker, member: Callable[..., GroupConsumer]
) -> None:
    busy, stalled = member(), member(max_poll_interval_ms=10_000)
    found: list[int] = []

    def is_shared() -> bool:
        return len(busy.assignment()) == len(stalled.assignment()) == PARTITIONS // 2

    poll_until(is_shared, busy, stalled)
    with Feed(broker) as feed:
        poll_until(lambda: len(busy.assignment()) == PARTITIONS, busy, found=found)
        poll_until(is_shared, busy, stalled, found=found)
        count = feed.finish()
    poll_until(lambda: set(found) == set(range(count)), busy, stalled, found=found)


class CountingConsumer(ConfluentConsumer):
    """Counts the partitions that it was given and that were taken from it."""

    def __init__(self, broker: ChildBroker, **options: Any) -> None:
        super().__init__(broker.bootstrap_servers, "group", TOPIC, **options)
        self.given: list[int] = []
        self.taken: list[int] = []
        self._consumer.subscribe(
            [TOPIC],
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


def test_a_static_member_that_returns_causes_no_rebalance(
    broker: ChildBroker, counting: Callable[..., CountingConsumer]
) -> None:
    first, second = counting(group_instance_id="first"), counting(group_instance_id="second")

    def is_shared() -> bool:
        return len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2

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
