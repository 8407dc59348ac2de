"""ShareAcknowledge over the wire: what it does to records, and what it refuses."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.log_requests import append, batch, topic_id
from tests.broker.handlers.share_requests import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Batch,
    Member,
    set_group,
    start_state,
)
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

LONG_WAIT_MS = 20_000
DONE = (ErrorCode.none, ErrorCode.none)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"share.coordinator.state.topic.num.partitions": 1}) as running:
        yield running


@pytest.fixture
def topic(broker: Broker, wire: Wire) -> UUID:
    """Topic `a` with one batch of four records, and a group that begins there."""
    broker.create_topic("a")
    append(wire, "a", batch(b"0", b"1", b"2", b"3"))
    found = topic_id(wire, "a")
    start_state(wire, found)
    return found


@pytest.fixture
def member(wire: Wire, topic: UUID) -> Member:
    """One that has acquired all four records."""
    member = Member(wire, topic)
    assert member.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 3, 1)]
    return member


@pytest.mark.parametrize("version", [1, 2])
def test_each_type_decides_what_comes_again(member: Member, version: int) -> None:
    member.version = version
    assert member.acknowledge((0, 3, [ACCEPT, RELEASE, REJECT, GAP])) == DONE
    assert member.fetch().acquired() == [(1, 1, 2)]


def test_a_record_that_is_given_back_too_often_is_given_up(wire: Wire, topic: UUID) -> None:
    set_group(wire, share_delivery_count_limit=2)
    member = Member(wire, topic)
    for delivery_count in (1, 2):
        assert member.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 3, delivery_count)]
        assert member.acknowledge((0, 3, [RELEASE])) == DONE
    assert member.fetch().acquired() == []


def test_a_record_is_isolated_before_it_is_given_up(wire: Wire, topic: UUID) -> None:
    set_group(wire, share_delivery_count_limit=4)
    member = Member(wire, topic)
    sizes = []
    for _ in range(3):
        found = member.fetch(max_wait_ms=LONG_WAIT_MS).acquired()
        sizes.append([(first, last) for first, last, _ in found])
        assert member.acknowledge((found[0][0], found[-1][1], [RELEASE])) == DONE
    assert sizes == [[(0, 3)], [(0, 3)], [(0, 1)]]
    assert member.fetch().acquired() == [(0, 0, 4)]


@pytest.mark.parametrize(
    "batches",
    [
        [(1, 2, [ACCEPT]), (0, 0, [ACCEPT])],
        [(2, 1, [ACCEPT])],
        [(0, 1, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 1, [5])],
        [(0, 1, [-1])],
        [(0, 1, [RENEW])],
        [(0, 4, [ACCEPT])],
        [(9, 9, [ACCEPT])],
    ],
)
def test_an_acknowledgement_that_makes_no_sense_is_rejected_whole(member: Member, batches: list[Batch]) -> None:
    assert member.acknowledge(*batches) == (ErrorCode.none, ErrorCode.invalid_request)
    assert member.acknowledge((0, 3, [ACCEPT])) == DONE


def test_an_offset_cannot_be_acknowledged_twice_at_once(member: Member) -> None:
    twice = [(0, 1, [ACCEPT]), (1, 2, [ACCEPT])]
    assert member.acknowledge(*twice) == (ErrorCode.none, ErrorCode.invalid_record_state)
    assert member.acknowledge((0, 3, [ACCEPT])) == DONE


def test_a_member_can_acknowledge_only_records_that_it_holds(broker: Broker, member: Member) -> None:
    with Wire(broker) as connected:
        other = Member(connected, member.topic, "other")
        other.fetch()
        assert other.acknowledge((0, 0, [ACCEPT])) == (ErrorCode.none, ErrorCode.invalid_record_state)
        assert member.acknowledge((1, 2, [ACCEPT])) == DONE
        assert member.acknowledge((0, 1, [ACCEPT])) == (ErrorCode.none, ErrorCode.invalid_record_state)
        assert member.acknowledge((0, 0, [ACCEPT]), (3, 3, [ACCEPT])) == DONE


def test_a_session_must_be_there_and_its_epoch_right(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    assert member.acknowledge(epoch=1)[0] is ErrorCode.share_session_not_found
    member.fetch()
    assert member.acknowledge(epoch=0)[0] is ErrorCode.invalid_share_session_epoch
    assert member.acknowledge(epoch=7)[0] is ErrorCode.invalid_share_session_epoch
    assert member.acknowledge(epoch=1)[0] is ErrorCode.none
    assert Member(wire, topic, "").acknowledge(epoch=1)[0] is ErrorCode.invalid_request


def test_the_last_acknowledgement_closes_the_session_and_gives_back_the_rest(member: Member) -> None:
    assert member.acknowledge((0, 1, [ACCEPT]), epoch=-1) == DONE
    assert member.acknowledge(epoch=2)[0] is ErrorCode.share_session_not_found
    assert member.fetch(epoch=0, max_wait_ms=LONG_WAIT_MS).acquired() == [(2, 3, 2)]


def test_renewing_is_rejected_where_the_group_does_not_allow_it(member: Member) -> None:
    assert member.acknowledge((0, 3, [RENEW]), is_renewal=True) == DONE
    set_group(member.wire, share_renew_acknowledge_enable="false")
    refused = (ErrorCode.none, ErrorCode.invalid_record_state)
    assert member.acknowledge((0, 3, [RENEW]), is_renewal=True) == refused


def test_records_that_are_acknowledged_survive_a_crash(broker: Broker, member: Member) -> None:
    assert member.acknowledge((0, 2, [ACCEPT])) == DONE
    broker.kill()
    broker.start()
    with Wire(broker) as again:
        found = Member(again, member.topic).fetch(max_wait_ms=LONG_WAIT_MS)
        assert [(first, last) for first, last, _ in found.acquired()] == [(3, 3)]
