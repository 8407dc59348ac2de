"""The share partitions of a broker: when they are loaded and dropped, and the start offset of a group."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.log_requests import append, batch, topic_id
from tests.broker.handlers.share_requests import ACCEPT, Member, begin, set_group, start_state
from tests.broker.handlers.wire import Wire

from catchment.ports.clock import SystemClock
from catchment.testing.embedded import Broker

LONG_WAIT_MS = 20_000
HOUR_MS = 3_600_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"share.coordinator.state.topic.num.partitions": 1}) as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        yield connected


def filled(broker: Broker, wire: Wire, *batches: bytes) -> UUID:
    broker.create_topic("a")
    for each in batches:
        append(wire, "a", each)
    return topic_id(wire, "a")


def at(age_ms: int, *values: bytes) -> bytes:
    return batch(*values, base_timestamp_ms=SystemClock().now_ms() - age_ms)


@pytest.mark.parametrize(
    ("reset", "first"),
    [("by_duration:PT90M", 2), ("by_duration:P1DT30M", 1), ("by_duration:PT1.5S", 3), ("earliest", 0), ("latest", 4)],
)
def test_a_group_can_start_a_duration_before_now(broker: Broker, wire: Wire, reset: str, first: int) -> None:
    ages_ms = (48 * HOUR_MS, 5 * HOUR_MS, HOUR_MS, 0)
    topic = filled(broker, wire, *[at(age_ms, b"x") for age_ms in ages_ms])
    set_group(wire, share_auto_offset_reset=reset)
    start_state(wire, topic, start_offset=-1)
    member = Member(wire, topic)
    begin(member)
    append(wire, "a", at(0, b"last"))
    found = member.fetch(max_wait_ms=LONG_WAIT_MS, max_records=1)
    assert found.acquired()[0][0] == first


def test_a_reinitialized_state_is_loaded_when_the_group_returns(broker: Broker, wire: Wire) -> None:
    topic = filled(broker, wire, batch(b"0"), batch(b"1"))
    start_state(wire, topic)
    member = Member(wire, topic)
    assert member.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 1, 1)]
    assert member.acknowledge((0, 1, [ACCEPT]), epoch=-1) == (ErrorCode.none, ErrorCode.none)
    start_state(wire, topic, start_offset=1)
    assert Member(wire, topic, "next").fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(1, 1, 1)]


def test_a_recreated_topic_starts_from_scratch(broker: Broker, wire: Wire) -> None:
    old = filled(broker, wire, batch(b"0", b"1"))
    start_state(wire, old)
    member = Member(wire, old)
    assert member.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 1, 1)]
    broker.delete_topic("a")
    assert member.fetch(max_wait_ms=LONG_WAIT_MS).partitions[0].error_code is ErrorCode.unknown_topic_id
    new = filled(broker, wire, batch(b"new"))
    start_state(wire, new)
    again = Member(wire, new, "again")
    assert again.fetch(max_wait_ms=LONG_WAIT_MS).values() == [b"new"]


def test_a_fetch_of_a_disconnected_member_acquires_nothing(broker: Broker, wire: Wire) -> None:
    topic = filled(broker, wire)
    start_state(wire, topic)
    with Wire(broker) as gone:
        member = Member(gone, topic, "gone")
        member.fetch(max_wait_ms=100)
        gone.send(member.fetch_request(max_wait_ms=LONG_WAIT_MS), 2)
    other = Member(wire, topic, "other")
    other.fetch(max_wait_ms=200)
    append(wire, "a", batch(b"0"))
    assert other.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 0, 1)]
