"""The share-partition leader: when it loads and persists the state, and the effect of a failed write."""

from __future__ import annotations

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.share.led_partition import RULES, Keeper, Led, undecided
from tests.waiting import until

from catchment.broker.share.in_flight import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredRecords,
    FetchLimits,
    LogBatch,
    RecordState,
)
from catchment.coordination.share_state.batches import StateBatch
from catchment.protocol.errors import ApiError

LIMITS = FetchLimits(max_records=100, batch_size=100)
TEN = [LogBatch(0, 9)]
ACCEPT = [AcknowledgeType.ACCEPT]


async def acquired(led: Led, member: str = "member") -> list[AcquiredRecords]:
    return led.leader.acquire(member, 0, TEN, LIMITS)


async def test_a_persisted_state_is_loaded() -> None:
    archived = StateBatch(2, 3, RecordState.ARCHIVED, 5)
    led = Led(Keeper(1, (archived, StateBatch(5, 5, RecordState.AVAILABLE, 2))))
    leader = await led.load()
    assert leader.next_fetch_offset() == 1
    assert await acquired(led) == [
        AcquiredRecords(1, 1, 1),
        AcquiredRecords(4, 4, 1),
        AcquiredRecords(5, 5, 3),
        AcquiredRecords(6, 9, 1),
    ]


async def test_the_start_offset_of_a_group_is_persisted_before_the_first_delivery() -> None:
    led = Led(undecided())
    led.append(b"before")
    led.keeper.gate.clear()
    led.leader.start()
    assert led.leader.next_fetch_offset() is None
    led.keeper.gate.set()
    await led.settled()
    assert led.keeper.writes == [(1, (), 0)]
    assert led.leader.next_fetch_offset() == 1


async def test_an_unreadable_state_is_reported_as_in_kafka() -> None:
    for code, expected in (
        (ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available),
        (ErrorCode.not_coordinator, ErrorCode.coordinator_not_available),
        (ErrorCode.fenced_leader_epoch, ErrorCode.not_leader_or_follower),
        (ErrorCode.invalid_request, ErrorCode.invalid_request),
    ):
        led = Led()
        led.keeper.error = code
        leader = await led.load()
        assert leader.error is not None
        assert leader.error.code is expected
        assert leader.next_fetch_offset() is None


async def test_an_acknowledgement_is_answered_when_it_is_persisted() -> None:
    led = Led()
    leader = await led.load()
    await acquired(led)
    led.keeper.gate.clear()
    answer = asyncio.create_task(leader.acknowledge("member", [Acknowledgement(2, 4, ACCEPT)]))
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await leader.acknowledge("member", [Acknowledgement(4, 4, ACCEPT)])
    assert refused.value.code is ErrorCode.invalid_record_state
    assert not answer.done()
    led.keeper.gate.set()
    await answer
    assert led.keeper.writes == [(0, (StateBatch(2, 4, RecordState.ACKNOWLEDGED, 1),), 3)]


async def test_a_failed_write_leaves_the_records_with_their_member() -> None:
    led = Led()
    leader = await led.load()
    await acquired(led)
    led.keeper.error = ErrorCode.coordinator_not_available
    with pytest.raises(ApiError) as refused:
        await leader.acknowledge("member", [Acknowledgement(0, 9, ACCEPT)])
    assert refused.value.code is ErrorCode.coordinator_not_available
    assert await acquired(led, "other") == []
    led.keeper.error = None
    await leader.acknowledge("member", [Acknowledgement(0, 9, ACCEPT)])
    assert leader.next_fetch_offset() == 10


async def test_a_fenced_leader_is_dropped() -> None:
    for code, expected in (
        (ErrorCode.fenced_state_epoch, ErrorCode.fenced_state_epoch),
        (ErrorCode.fenced_leader_epoch, ErrorCode.not_leader_or_follower),
    ):
        led = Led()
        leader = await led.load()
        await acquired(led)
        led.keeper.error = code
        with pytest.raises(ApiError) as refused:
            await leader.acknowledge("member", [Acknowledgement(0, 0, ACCEPT)])
        assert refused.value.code is expected
        assert led.fenced == [leader]


async def test_the_written_start_offset_moves_past_final_records() -> None:
    led = Led()
    leader = await led.load()
    await acquired(led)
    await leader.acknowledge("member", [Acknowledgement(0, 4, ACCEPT)])
    await leader.acknowledge("member", [Acknowledgement(6, 6, ACCEPT)])
    assert [(start, count) for start, _, count in led.keeper.writes] == [(0, 5), (5, 1)]


async def test_locks_time_out_and_waiting_fetches_are_notified() -> None:
    led = Led(rules=RULES._replace(lock_duration_ms=1))
    leader = await led.load()
    rung: list[int] = []
    leader.waiting.add(lambda: rung.append(1))
    await acquired(led)
    led.clock.advance(1)
    await until(lambda: bool(rung))
    await led.settled()
    assert led.keeper.writes == [(0, (StateBatch(0, 9, RecordState.AVAILABLE, 1),), 0)]
    assert await acquired(led, "other") == [AcquiredRecords(0, 9, 2)]
    leader.close()


async def test_a_renewed_lock_lasts_from_then_on() -> None:
    led = Led()
    leader = await led.load()
    await acquired(led)
    led.clock.advance(20_000)
    await leader.acknowledge("member", [Acknowledgement(0, 4, [AcknowledgeType.RENEW])])
    records = leader.records
    assert records is not None
    led.clock.advance(10_000)
    assert records.expire(RULES, 30_000) == (StateBatch(5, 9, RecordState.AVAILABLE, 1),)
    assert records.next_deadline_ms == 50_000
    assert led.keeper.writes == []
    leader.close()


async def test_records_below_the_log_start_need_no_acknowledgement() -> None:
    led = Led()
    for _ in range(10):
        led.append(b"x")
    leader = await led.load()
    await acquired(led)
    led.partition.log.advance_log_start(6)
    assert leader.next_fetch_offset() == 10
    await leader.acknowledge("member", [Acknowledgement(0, 7, ACCEPT)])
    assert led.keeper.writes == [(6, (StateBatch(6, 7, RecordState.ACKNOWLEDGED, 1),), 2)]
    leader.close()


async def test_a_leader_that_is_closed_while_loading_delivers_nothing() -> None:
    led = Led()
    led.keeper.gate.clear()
    led.leader.start()
    led.leader.close()
    led.keeper.gate.set()
    await led.settled()
    assert led.leader.next_fetch_offset() is None


async def test_an_unexpected_error_while_loading_is_reported_to_members() -> None:
    led = Led()
    led.keeper.fault = ZeroDivisionError()
    leader = await led.load()
    assert leader.error is not None
    assert leader.error.code is ErrorCode.unknown_server_error


async def test_a_member_that_disconnects_before_its_acknowledgement_is_persisted_leaves_no_pending_change() -> None:
    led = Led()
    leader = await led.load()
    await acquired(led)
    led.keeper.gate.clear()
    answer = asyncio.create_task(leader.acknowledge("member", [Acknowledgement(0, 9, ACCEPT)]))
    await asyncio.sleep(0)
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    leader.release("member")
    led.keeper.gate.set()
    await led.settled()
    assert await acquired(led, "other") == [AcquiredRecords(0, 9, 2)]
