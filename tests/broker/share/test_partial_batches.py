"""Batches that become in-flight in parts: the rest of a batch stays available for later."""

from __future__ import annotations

from catchment.broker.share.in_flight import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredRecords,
    FetchLimits,
    LogBatch,
    RecordRules,
    RecordState,
)
from catchment.broker.share.partition import MAX_RECORDS_PER_ADMISSION, SharePartition
from catchment.coordination.share_state.batches import StateBatch

_ALL = FetchLimits(max_records=1_000_000, batch_size=1_000_000)


def accept(share: SharePartition, first_offset: int, last_offset: int, rules: RecordRules) -> None:
    accepted = Acknowledgement(first_offset, last_offset, [AcknowledgeType.ACCEPT])
    share.commit(share.acknowledge("a", [accepted], rules, 0))


def test_the_end_of_a_batch_above_the_lock_limit_is_not_treated_as_a_gap() -> None:
    rules = RecordRules(lock_duration_ms=1000, max_delivery_count=5, max_record_locks=20)
    log_batches = [LogBatch(0, 29), LogBatch(35, 39)]
    share = SharePartition(0, [StateBatch(25, 25, RecordState.ACKNOWLEDGED, 1)])
    assert share.acquire("a", 0, log_batches, _ALL, rules, 0) == [AcquiredRecords(0, 24, 1)]
    accept(share, 0, 24, rules)
    assert share.next_fetch_offset(rules) == 26
    assert share.acquire("a", 26, log_batches, _ALL, rules, 0) == [
        AcquiredRecords(26, 29, 1),
        AcquiredRecords(35, 39, 1),
    ]


def test_a_batch_of_very_many_records_is_delivered_in_parts() -> None:
    rules = RecordRules(lock_duration_ms=1000, max_delivery_count=5, max_record_locks=100)
    last_offset = 2 * MAX_RECORDS_PER_ADMISSION
    log_batches = [LogBatch(0, last_offset), LogBatch(last_offset + 5, last_offset + 5)]
    share = SharePartition(0)
    taken: list[AcquiredRecords] = []
    while acquired := share.acquire("a", share.end_offset, log_batches, _ALL, rules, 0):
        assert share.end_offset - share.start_offset <= MAX_RECORDS_PER_ADMISSION
        taken += acquired
        accept(share, acquired[0].first_offset, acquired[0].last_offset, rules)
        log_batches = [log_batch for log_batch in log_batches if log_batch.last_offset >= share.end_offset]
    assert taken == [
        AcquiredRecords(0, MAX_RECORDS_PER_ADMISSION - 1, 1),
        AcquiredRecords(MAX_RECORDS_PER_ADMISSION, last_offset - 1, 1),
        AcquiredRecords(last_offset, last_offset, 1),
        AcquiredRecords(last_offset + 5, last_offset + 5, 1),
    ]
