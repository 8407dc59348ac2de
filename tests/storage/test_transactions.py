"""Transactions in a log: the last stable offset, markers, and the index of the aborted ones."""

from __future__ import annotations

import struct

import pytest
from kio.schema.errors import ErrorCode
from tests.storage.logs import batch, marker, new_log, path_of, reopened

from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.batch import iterate_headers
from catchment.protocol.errors import ApiError
from catchment.storage import layout
from catchment.storage.log import Log


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def log(disk: MemoryDisk) -> Log:
    return new_log(disk)


def _write(log: Log, producer_id: int, sequence: int = 0, epoch: int = 0) -> int:
    data = batch(b"v" * 60, producer_id=producer_id, epoch=epoch, sequence=sequence, is_transactional=True)
    return log.append_as_leader(data, 0).base_offset


def _end(log: Log, producer_id: int, *, is_commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    data = marker(producer_id, is_commit=is_commit, epoch=epoch, coordinator_epoch=coordinator_epoch)
    return log.append_as_leader(data, 0, is_from_client=False).base_offset


def test_an_open_transaction_holds_the_last_stable_offset(log: Log) -> None:
    log.append_as_leader(batch(b"plain"), 0)
    assert log.last_stable_offset(1) == 1
    _write(log, 7)
    _write(log, 7, sequence=1)
    log.append_as_leader(batch(b"plain"), 0)
    assert log.first_unstable_offset == 1
    assert log.last_stable_offset(4) == 1


def test_the_last_stable_offset_moves_only_when_the_marker_is_below_the_high_watermark(log: Log) -> None:
    _write(log, 7)
    _end(log, 7, is_commit=True)
    assert log.last_stable_offset(1) == 0
    assert log.last_stable_offset(2) == 2


def test_the_first_of_several_open_transactions_counts(log: Log) -> None:
    _write(log, 1)
    _write(log, 2)
    _end(log, 1, is_commit=True)
    assert log.last_stable_offset(3) == 1
    _end(log, 2, is_commit=False)
    assert log.last_stable_offset(4) == 4


def test_only_aborted_transactions_in_the_range_are_returned(log: Log) -> None:
    _write(log, 1)
    _end(log, 1, is_commit=True)
    _write(log, 2)
    _end(log, 2, is_commit=False)
    log.append_as_leader(batch(b"plain"), 0)
    _write(log, 3)
    _end(log, 3, is_commit=False)
    assert log.aborted_transactions(0, 7) == [(2, 2), (3, 5)]
    assert log.aborted_transactions(0, 5) == [(2, 2)]
    assert log.aborted_transactions(4, 7) == [(3, 5)]
    assert log.aborted_transactions(0, 2) == []


def test_an_abort_is_found_from_segments_before_its_marker(log: Log) -> None:
    _write(log, 1)
    log.roll()
    for _ in range(3):
        log.append_as_leader(batch(b"plain"), 0)
    log.roll()
    _end(log, 1, is_commit=False)
    assert log.aborted_transactions(0, 5) == [(1, 0)]


def test_an_index_entry_has_the_bytes_of_kafkas_format(disk: MemoryDisk, log: Log) -> None:
    _write(log, 8)
    _write(log, 9)
    _end(log, 9, is_commit=False)
    assert disk.read_file(path_of(0, layout.TRANSACTION_INDEX)) == struct.pack(">hqqqq", 0, 9, 1, 2, 0)


def test_a_marker_without_data_is_written_and_aborts_nothing(log: Log) -> None:
    assert _end(log, 1, is_commit=False) == 0
    assert log.aborted_transactions(0, 1) == []
    assert log.last_stable_offset(1) == 1


def test_a_write_outside_an_open_transaction_is_rejected(log: Log) -> None:
    _write(log, 1)
    with pytest.raises(ApiError) as rejected:
        log.append_as_leader(batch(b"x", producer_id=1, epoch=0, sequence=1), 0)
    assert rejected.value.code is ErrorCode.invalid_txn_state


def test_a_marker_of_an_old_epoch_or_coordinator_is_rejected(log: Log) -> None:
    _write(log, 1, epoch=5)
    with pytest.raises(ApiError) as rejected:
        _end(log, 1, is_commit=True, epoch=4)
    assert rejected.value.code is ErrorCode.invalid_producer_epoch
    _end(log, 1, is_commit=True, epoch=5, coordinator_epoch=3)
    with pytest.raises(ApiError) as rejected:
        _end(log, 1, is_commit=True, epoch=5, coordinator_epoch=2)
    assert rejected.value.code is ErrorCode.transaction_coordinator_fenced


def test_a_marker_with_a_higher_epoch_fences_and_starts_sequences_again(log: Log) -> None:
    _write(log, 1)
    _end(log, 1, is_commit=False, epoch=1)
    with pytest.raises(ApiError) as rejected:
        _write(log, 1, sequence=1, epoch=0)
    assert rejected.value.code is ErrorCode.invalid_producer_epoch
    assert _write(log, 1, sequence=0, epoch=1) == 2


@pytest.mark.parametrize("is_clean", [True, False])
def test_open_and_aborted_transactions_survive_a_restart(disk: MemoryDisk, log: Log, is_clean: bool) -> None:
    _write(log, 1)
    _write(log, 2)
    _end(log, 2, is_commit=False)
    log.roll()
    _write(log, 3)
    log.close(clean=is_clean)
    log = reopened(disk, is_clean=is_clean, recovery_point=4 if is_clean else 0)
    assert log.aborted_transactions(0, 4) == [(2, 1)]
    assert log.last_stable_offset(4) == 0
    _end(log, 1, is_commit=True)
    assert log.last_stable_offset(5) == 3


def test_truncation_reopens_a_transaction(disk: MemoryDisk, log: Log) -> None:
    _write(log, 1)
    marker_offset = _end(log, 1, is_commit=False)
    log.last_stable_offset(2)
    log.truncate_to(marker_offset)
    assert log.aborted_transactions(0, 2) == []
    assert log.last_stable_offset(1) == 0
    _end(log, 1, is_commit=True)
    assert log.last_stable_offset(2) == 2
    assert log.aborted_transactions(0, 2) == []


def test_a_follower_tracks_transactions_as_its_leader_does(log: Log) -> None:
    _write(log, 1)
    _write(log, 2)
    _end(log, 1, is_commit=False)
    follower = new_log(MemoryDisk())
    follower.append_as_follower(memoryview(log.read(0, 1 << 20, 3)))
    assert follower.aborted_transactions(0, 3) == log.aborted_transactions(0, 3) == [(1, 0)]
    assert follower.last_stable_offset(3) == 1


def test_a_marker_that_cannot_be_written_leaves_no_index_entry(disk: MemoryDisk, log: Log) -> None:
    _write(log, 1)
    disk.fill(40)
    with pytest.raises(ApiError) as rejected:
        _end(log, 1, is_commit=False)
    assert rejected.value.code is ErrorCode.kafka_storage_error
    assert log.aborted_transactions(0, 9) == []
    assert log.first_unstable_offset == 0
    disk.make_room()
    _end(log, 1, is_commit=False)
    assert log.aborted_transactions(0, 9) == [(1, 0)]


def test_with_bumped_epochs_a_marker_must_be_above_an_open_transaction_but_may_be_repeated(log: Log) -> None:
    _write(log, 1, epoch=5)
    for stale in (4, 5):
        with pytest.raises(ApiError) as rejected:
            log.producers.check_bumped_epoch(1, stale)
        assert rejected.value.code is ErrorCode.invalid_producer_epoch
    log.producers.check_bumped_epoch(1, 6)
    _end(log, 1, is_commit=True, epoch=6)
    log.producers.check_bumped_epoch(1, 6)
    log.producers.check_bumped_epoch(2, 0)


def test_a_transaction_is_open_for_the_epoch_that_began_it_until_its_marker(log: Log) -> None:
    _write(log, 1, epoch=5)
    assert log.producers.has_open_transaction(1, 5)
    assert not log.producers.has_open_transaction(1, 6)
    assert not log.producers.has_open_transaction(2, 5)
    _end(log, 1, is_commit=True, epoch=5)
    assert not log.producers.has_open_transaction(1, 5)


def test_the_last_stable_offset_is_not_below_the_start_of_the_log(log: Log) -> None:
    _write(log, 1)
    _write(log, 1, sequence=1)
    log.advance_log_start(1)
    assert log.last_stable_offset(2) == 1
    _end(log, 1, is_commit=True)
    assert log.last_stable_offset(3) == 3


def test_a_reader_far_behind_gets_only_aborts_near_what_it_reads(log: Log) -> None:
    for transaction in range(40):
        _write(log, 1, sequence=transaction)
        _end(log, 1, is_commit=False)
    assert len(log.segments) > 1
    end = log.log_end_offset
    assert log.aborted_transactions(0, end) == [(1, offset) for offset in range(0, 80, 2)]
    read = log.locate(0, 300, end)
    assert read is not None
    near = log.aborted_transactions(0, end, read)
    in_the_range = [header.base_offset for _, header in iterate_headers(read.file.read(read.position, read.size))]
    assert set(near) >= {(1, offset) for offset in in_the_range[::2]}
    assert len(near) < 10


def test_of_many_open_transactions_the_first_counts_after_a_restart_too(disk: MemoryDisk, log: Log) -> None:
    for producer_id in (9, 3, 7):
        _write(log, producer_id)
    log.close()
    log = reopened(disk, is_clean=True, recovery_point=3)
    assert log.last_stable_offset(3) == 0
    _end(log, 9, is_commit=True)
    assert log.last_stable_offset(4) == 1
    _end(log, 7, is_commit=True)
    assert log.last_stable_offset(5) == 1
