"""ShareFetch over the wire: what is acquired, sessions, limits, waiting, and the records of a lost member."""

import threading
from collections.abc import Iterator
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.log_requests import append, batch, topic_id
from tests.broker.handlers.share_requests import (
    ACCEPT,
    RECORD_LIMIT,
    RELEASE,
    RENEW,
    Member,
    begin,
    persisted_start,
    set_group,
    start_state,
)
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

from catchment.testing.embedded import Broker

LONG_WAIT_MS = 20_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"share.coordinator.state.topic.num.partitions": 1, "group.share.min.record.lock.duration.ms": 1000}
    with Broker(settings=settings) as running:
        yield running


@pytest.fixture
def topic(broker: Broker, wire: Wire) -> UUID:
    """Topic `a` with three batches of two records in each of two partitions, and a group that begins at their start."""
    broker.create_topic("a", 2)
    for number in range(2):
        for first in range(0, 6, 2):
            append(wire, "a", batch(b"%d" % first, b"%d" % (first + 1)), partition=number)
    found = topic_id(wire, "a")
    start_state(wire, found, 0, 1)
    return found


@pytest.fixture
def other_wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        yield connected


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_acquired_once_and_come_as_the_log_has_them(
    wire: Wire, other_wire: Wire, topic: UUID, version: int
) -> None:
    first, second = Member(wire, topic, "first", version=version), Member(other_wire, topic, "second", version=version)
    found = first.fetch(max_wait_ms=LONG_WAIT_MS)
    assert found.values() == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert found.acquired() == [(0, 5, 1)]
    assert found.lock_timeout_ms == 30_000
    assert second.fetch().acquired() == []


def test_record_limits_are_rounded_up_to_batches_unless_they_are_to_be_exact(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    assert member.fetch(max_wait_ms=LONG_WAIT_MS, max_records=1).acquired() == [(0, 1, 1)]
    found = member.fetch(max_records=3, mode=RECORD_LIMIT)
    assert found.acquired() == [(2, 4, 1)]
    assert found.values() == [b"2", b"3", b"4", b"5"]
    assert member.fetch().acquired() == [(5, 5, 1)]


def test_an_unknown_acquire_mode_is_rejected_and_opens_no_session(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    for mode in (-1, 2):
        assert member.fetch(epoch=0, mode=mode).error is ErrorCode.invalid_request
    assert member.fetch(epoch=1).error is ErrorCode.share_session_not_found


def test_acquired_records_come_in_batches_of_the_wanted_size(wire: Wire, topic: UUID) -> None:
    found = Member(wire, topic).fetch(max_wait_ms=LONG_WAIT_MS, batch_size=3)
    assert found.acquired() == [(0, 3, 1), (4, 5, 1)]


def test_acknowledgements_ride_along_and_released_records_come_again(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    member.fetch(max_wait_ms=LONG_WAIT_MS)
    found = member.fetch(acknowledge={0: [(0, 2, [ACCEPT]), (3, 4, [RELEASE, ACCEPT])]})
    assert found.partitions[0].acknowledge_error_code == 0
    assert found.acquired() == [(3, 3, 2)]
    assert found.values() == [b"2", b"3"]


def test_an_acknowledgement_is_answered_though_there_is_nothing_to_fetch(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    member.fetch(max_wait_ms=LONG_WAIT_MS)
    found = member.fetch(acknowledge={0: [(0, 5, [ACCEPT])]})
    assert (found.partitions[0].acknowledge_error_code, found.acquired()) == (0, [])
    again = member.fetch(acknowledge={0: [(0, 0, [ACCEPT])], 1: [(0, 7, [ACCEPT])]})
    assert again.partitions[0].acknowledge_error_code == 0
    assert again.partitions[1].acknowledge_error_code == ErrorCode.unknown_topic_or_partition.value


def test_a_session_has_an_order_of_epochs(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    assert member.fetch(epoch=1).error is ErrorCode.share_session_not_found
    assert member.fetch(epoch=0).error is ErrorCode.none
    assert member.fetch(epoch=2).error is ErrorCode.invalid_share_session_epoch
    assert member.fetch(epoch=1).error is ErrorCode.none
    assert member.fetch(epoch=0, acknowledge={0: [(0, 0, [ACCEPT])]}).error is ErrorCode.invalid_request
    assert member.fetch(epoch=-1).error is ErrorCode.none
    assert member.fetch(epoch=-1).error is ErrorCode.share_session_not_found


@pytest.mark.parametrize("name", ["", "m" * 37])
def test_a_member_must_have_a_sane_id(wire: Wire, topic: UUID, name: str) -> None:
    assert Member(wire, topic, name).fetch().error is ErrorCode.invalid_request


def test_there_is_a_bound_on_sessions(wire: Wire) -> None:
    with Broker(settings={"group.share.max.share.sessions": 1}) as small, Wire(small) as connected:
        small.create_topic("a")
        topic = topic_id(connected, "a")
        assert Member(connected, topic, "first").fetch().error is ErrorCode.none
        assert Member(connected, topic, "second").fetch().error is ErrorCode.share_session_limit_reached
        assert Member(connected, topic, "first").fetch().error is ErrorCode.none


def test_forgotten_partitions_are_not_read_any_more(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic, partitions=(0, 1))
    wait_until(lambda: member.fetch(max_records=1).acquired(1))
    found = member.fetch(forgotten=[0])
    assert found.acquired(0) == []
    assert found.acquired(1) == [(2, 5, 1)]


def test_closing_a_session_gives_its_records_to_others(wire: Wire, other_wire: Wire, topic: UUID) -> None:
    first, second = Member(wire, topic, "first"), Member(other_wire, topic, "second")
    assert first.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 5, 1)]
    second.fetch()
    closed = first.fetch(epoch=-1, acknowledge={0: [(0, 1, [ACCEPT])]})
    assert closed.partitions[0].acknowledge_error_code == 0
    assert second.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(2, 5, 2)]


def test_a_lost_connection_gives_the_records_of_its_sessions_to_others(
    wire: Wire, other_wire: Wire, topic: UUID
) -> None:
    first, second = Member(wire, topic, "first"), Member(other_wire, topic, "second")
    assert first.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 5, 1)]
    wire.close()
    assert second.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 5, 2)]


def test_a_lock_that_ends_gives_the_records_to_others(wire: Wire, other_wire: Wire, topic: UUID) -> None:
    set_group(wire, share_record_lock_duration_ms=1000)
    first, second = Member(wire, topic, "first"), Member(other_wire, topic, "second")
    assert first.fetch(max_wait_ms=LONG_WAIT_MS).lock_timeout_ms == 1000
    assert second.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 5, 2)]


def test_a_waiting_fetch_is_woken_by_new_records(broker: Broker, wire: Wire, other_wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    member.fetch(max_wait_ms=LONG_WAIT_MS)
    waiting = threading.Thread(target=lambda: append(other_wire, "a", batch(b"6")))
    waiting.start()
    assert member.fetch(max_wait_ms=LONG_WAIT_MS).values() == [b"6"]
    waiting.join()


def test_a_fetch_without_enough_bytes_takes_what_there_is_when_its_time_is_up(wire: Wire, topic: UUID) -> None:
    assert Member(wire, topic).fetch(max_wait_ms=500, min_bytes=1 << 19).acquired() == [(0, 5, 1)]


def test_a_group_begins_where_its_setting_says(broker: Broker, wire: Wire, topic: UUID) -> None:
    start_state(wire, topic, 0, 1, start_offset=-1)
    member = Member(wire, topic)
    begin(member)
    append(wire, "a", batch(b"new"))
    assert member.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(6, 6, 1)]
    set_group(wire, share_auto_offset_reset="earliest")
    early = Member(wire, topic, "early", partitions=(1,))
    assert early.fetch(max_wait_ms=LONG_WAIT_MS).acquired(1) == [(0, 5, 1)]


def test_what_a_new_group_has_not_fetched_yet_is_not_lost_in_a_restart(broker: Broker, wire: Wire, topic: UUID) -> None:
    start_state(wire, topic, 0, start_offset=-1)
    begin(Member(wire, topic))
    append(wire, "a", batch(b"new"))
    broker.restart()
    with Wire(broker) as again:
        assert Member(again, topic).fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(6, 6, 1)]


def test_acknowledged_records_stay_so_after_a_crash_and_held_ones_come_again(
    broker: Broker, wire: Wire, topic: UUID
) -> None:
    member = Member(wire, topic)
    member.fetch(max_wait_ms=LONG_WAIT_MS)
    member.fetch(acknowledge={0: [(0, 1, [ACCEPT]), (4, 4, [ACCEPT])]})
    broker.kill()
    broker.start()
    with Wire(broker) as again:
        found = Member(again, topic).fetch(max_wait_ms=LONG_WAIT_MS)
        assert [(first, last) for first, last, _ in found.acquired()] == [(2, 3), (5, 5)]


def test_what_is_persisted_says_how_far_the_group_is(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    member.fetch(max_wait_ms=LONG_WAIT_MS)
    member.fetch(acknowledge={0: [(0, 1, [ACCEPT])]})
    member.fetch(acknowledge={0: [(3, 4, [ACCEPT])]})
    assert persisted_start(wire, topic) == (2, 2)


def test_a_renewal_fetches_nothing(wire: Wire, topic: UUID) -> None:
    member = Member(wire, topic)
    member.fetch(max_wait_ms=LONG_WAIT_MS, max_records=1)
    renewal = {0: [(0, 1, [RENEW])]}
    assert member.fetch(is_renewal=True, acknowledge=renewal, epoch=1).error is ErrorCode.invalid_request
    renewed = member.fetch(is_renewal=True, acknowledge=renewal, min_bytes=0, max_bytes=0, max_records=0)
    assert (renewed.error, renewed.partitions[0].acknowledge_error_code) == (ErrorCode.none, 0)
    assert renewed.acquired() == []


def test_unknown_topics_and_partitions_are_errors_of_their_own(wire: Wire, topic: UUID) -> None:
    unknown = Member(wire, UUID(int=topic.int ^ 1)).fetch(max_wait_ms=LONG_WAIT_MS)
    assert unknown.partitions[0].error_code is ErrorCode.unknown_topic_id
    beyond = Member(wire, topic, "other", partitions=(7,)).fetch(max_wait_ms=LONG_WAIT_MS)
    assert beyond.partitions[7].error_code is ErrorCode.unknown_topic_or_partition


def test_a_partition_whose_state_was_not_set_up_has_nothing_to_fetch(broker: Broker, wire: Wire) -> None:
    broker.create_topic("b")
    append(wire, "b", batch(b"0"))
    topic = topic_id(wire, "b")
    member = Member(wire, topic)
    found = member.fetch(max_wait_ms=100)
    assert (found.error, found.partitions) == (ErrorCode.none, {})
    start_state(wire, topic, 0)
    assert member.fetch(max_wait_ms=LONG_WAIT_MS).acquired() == [(0, 0, 1)]
