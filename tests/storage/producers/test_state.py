"""Idempotent producers: sequences, epochs, duplicates, and what survives a restart."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode
from tests.storage.logs import NOW_MS, SMALL, batch, new_log, path_of, read_all, reopened

from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.batch import read_header
from catchment.protocol.checksum import crc32c
from catchment.protocol.errors import ApiError
from catchment.storage import layout
from catchment.storage.log import AppendInfo, Log
from catchment.storage.producers.snapshots import decode_snapshot, encode_snapshot
from catchment.storage.producers.state import BatchMetadata, ProducerEntry, ProducerState

_LAST_SEQUENCE = (1 << 31) - 1


def _send(log: Log, sequence: int, *values: bytes, producer_id: int = 1, epoch: int = 0) -> AppendInfo:
    data = batch(*(values or (b"v",)), producer_id=producer_id, epoch=epoch, sequence=sequence)
    return log.append_as_leader(data, 0)


def _rejection(log: Log, sequence: int, *, epoch: int = 0) -> ErrorCode:
    end_offset = log.log_end_offset
    with pytest.raises(ApiError) as rejected:
        _send(log, sequence, epoch=epoch)
    assert log.log_end_offset == end_offset
    return rejected.value.code


@pytest.fixture
def log() -> Log:
    return new_log(MemoryDisk())


def test_a_duplicate_of_the_last_five_batches_gets_its_original_offsets(log: Log) -> None:
    infos = [_send(log, 2 * number, b"a", b"b") for number in range(5)]
    for number, info in enumerate(infos):
        again = _send(log, 2 * number, b"a", b"b")
        assert again == info._replace(is_duplicate=True)
    assert log.log_end_offset == 10


def test_the_sixth_batch_back_is_no_longer_known(log: Log) -> None:
    for number in range(6):
        _send(log, number)
    assert _rejection(log, 0) is ErrorCode.out_of_order_sequence_number


def test_a_gap_and_a_lower_sequence_are_out_of_order(log: Log) -> None:
    _send(log, 0, b"a", b"b")
    assert _rejection(log, 3) is ErrorCode.out_of_order_sequence_number
    assert _rejection(log, 1) is ErrorCode.out_of_order_sequence_number
    assert _send(log, 2).base_offset == 2


def test_an_unknown_producer_may_begin_with_any_sequence(log: Log) -> None:
    assert _send(log, 77).base_offset == 0
    assert _rejection(log, 79) is ErrorCode.out_of_order_sequence_number


def test_sequences_wrap(log: Log) -> None:
    _send(log, _LAST_SEQUENCE - 1, b"a", b"b", b"c")
    entry = log.producers.get(1)
    assert entry is not None
    assert entry.last_sequence == 0
    assert _send(log, _LAST_SEQUENCE - 1, b"a", b"b", b"c").is_duplicate
    assert _send(log, 1).base_offset == 3


def test_the_sequence_after_the_largest_is_zero(log: Log) -> None:
    _send(log, _LAST_SEQUENCE)
    assert _rejection(log, 1) is ErrorCode.out_of_order_sequence_number
    assert _send(log, 0).base_offset == 1


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(log: Log) -> None:
    _send(log, 0, epoch=3)
    assert _rejection(log, 1, epoch=4) is ErrorCode.out_of_order_sequence_number
    assert _send(log, 0, epoch=4).base_offset == 1
    assert _rejection(log, 1, epoch=3) is ErrorCode.invalid_producer_epoch
    assert not _send(log, 1, epoch=4).is_duplicate


def test_a_duplicate_under_log_append_time_has_the_first_time() -> None:
    clock = ManualClock(NOW_MS)
    log = new_log(MemoryDisk(), replace(SMALL, message_timestamp_type="LogAppendTime"), clock)
    _send(log, 0)
    clock.advance(1000)
    again = _send(log, 0)
    assert again.is_duplicate
    assert again.log_append_time_ms == NOW_MS


@pytest.mark.parametrize("is_clean", [True, False])
def test_duplicates_are_known_after_a_restart(is_clean: bool) -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    for number in range(40):
        _send(log, number, b"x" * 100)
    log.close(clean=is_clean)
    assert len(log.segments) > 2
    log = reopened(disk, is_clean=is_clean, recovery_point=40 if is_clean else 0)
    assert _send(log, 39, b"x" * 100) == AppendInfo(39, 39, -1, 0, is_duplicate=True)
    assert _rejection(log, 41) is ErrorCode.out_of_order_sequence_number
    assert _send(log, 40).base_offset == 40


def test_a_torn_snapshot_is_skipped() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    _send(log, 0)
    log.roll()
    _send(log, 1)
    log.close()
    file = disk.open_file(path_of(2, layout.SNAPSHOT))
    file.truncate(file.size - 1)
    log = reopened(disk, is_clean=True, recovery_point=2)
    assert _send(log, 1).is_duplicate
    assert read_all(log) == [(0, b"v"), (1, b"v")]


def test_idle_producers_expire() -> None:
    clock = ManualClock(NOW_MS)
    log = new_log(MemoryDisk(), replace(SMALL, producer_id_expiration_ms=1000), clock)
    _send(log, 0, producer_id=1)
    clock.advance(600)
    _send(log, 0, producer_id=2)
    clock.advance(400)
    log.apply_retention(clock.now_ms(), log.log_end_offset)
    assert [entry.producer_id for entry in log.producers] == [2]


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    state = ProducerState()
    header = read_header(batch(b"x", producer_id=1, epoch=0, sequence=0, is_transactional=True))
    state.update(header, 0, NOW_MS, NOW_MS)
    assert state.expire(NOW_MS + 10_000, 1000) == 0


def test_the_number_of_producers_is_bounded_by_evicting_those_idle_for_longest() -> None:
    state = ProducerState(most_producers=20)
    for number in range(21):
        header = read_header(batch(b"x", producer_id=number, epoch=0, sequence=0))
        state.update(header, number, NOW_MS, NOW_MS + number)
    known = [entry.producer_id for entry in state]
    assert known == list(range(2, 21))


def test_a_snapshot_has_the_bytes_of_kafkas_format() -> None:
    entry = ProducerEntry(11)
    entry.epoch = 2
    entry.batches.append(BatchMetadata(9, 100, 3, NOW_MS))
    entry.last_timestamp_ms = NOW_MS
    entry.coordinator_epoch = 5
    entry.transaction_first_offset = 90
    body = struct.pack(">iqhiqiqiq", 1, 11, 2, 9, 100, 3, NOW_MS, 5, 90)
    encoded = encode_snapshot([entry])
    assert encoded == struct.pack(">hI", 1, crc32c(body)) + body
    (decoded,) = decode_snapshot(encoded)
    assert decoded.batches == entry.batches
    assert (decoded.transaction_first_offset, decoded.coordinator_epoch) == (90, 5)


@pytest.mark.parametrize("damage", [b"", b"\x00\x01", b"\x00\x02" + bytes(8)])
def test_what_is_not_a_snapshot_is_rejected(damage: bytes) -> None:
    with pytest.raises(ValueError, match="snapshot"):
        decode_snapshot(damage)
