"""Reads by offset and by time, below a bound, at a cost that does not grow with the log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode
from tests.storage.logs import NOW_MS, SMALL, batch, new_log, read_all, reopened

from catchment.ports.disk import Disk, StaleFile
from catchment.ports.memory_disk import MemoryDisk, MemoryFile
from catchment.protocol.batch import HEADER_SIZE, read_header
from catchment.protocol.compression import Compression
from catchment.protocol.errors import ApiError
from catchment.protocol.records import Record, encode_batch
from catchment.storage.log import Log


def _filled(disk: Disk, count: int = 60) -> Log:
    log = new_log(disk)
    for number in range(count):
        log.append_as_leader(batch(b"x" * 80, b"y", timestamp_ms=NOW_MS + number), 0)
    return log


@pytest.fixture
def log() -> Log:
    return _filled(MemoryDisk())


def test_a_read_begins_with_the_batch_that_holds_the_offset(log: Log) -> None:
    for offset in range(log.log_end_offset):
        header = read_header(log.read(offset, 1, log.log_end_offset))
        assert header.base_offset == offset - offset % 2


def test_at_least_one_whole_batch_comes_even_if_it_is_larger_than_the_limit(log: Log) -> None:
    data = log.read(4, 1, log.log_end_offset)
    assert read_header(data).size == len(data)


def test_otherwise_the_limit_holds(log: Log) -> None:
    assert len(log.read(4, 10, log.log_end_offset, at_least_one_batch=False)) == 10
    assert log.read(4, 0, log.log_end_offset, at_least_one_batch=False) == b""


def test_nothing_beyond_the_bound_is_returned(log: Log) -> None:
    for upper in range(0, log.log_end_offset + 1, 2):
        assert [offset for offset, _ in read_all(log, upper, max_bytes=1 << 20)] == list(range(upper))


def test_a_bound_inside_a_batch_holds_that_batch_back(log: Log) -> None:
    assert len(read_all(log, 7)) == 6


@pytest.mark.parametrize("offset", [-1, 121])
def test_an_offset_that_the_log_does_not_hold_is_out_of_range(log: Log, offset: int) -> None:
    with pytest.raises(ApiError) as rejected:
        log.read(offset, 1000, log.log_end_offset)
    assert rejected.value.code is ErrorCode.offset_out_of_range


def test_the_end_of_the_log_reads_as_nothing(log: Log) -> None:
    assert log.locate(120, 1000, 120) is None
    assert log.locate(10, 1000, 10) is None


def test_an_offset_below_the_log_start_is_out_of_range(log: Log) -> None:
    log.advance_log_start(5)
    with pytest.raises(ApiError):
        log.read(4, 1000, log.log_end_offset)
    assert read_header(log.read(5, 1, 120)).base_offset == 4


@pytest.mark.parametrize("count", [50, 2000])
def test_a_lookup_reads_little_however_long_the_log_is(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    config = replace(SMALL, segment_bytes=1 << 20)
    log = new_log(disk, config)
    for _ in range(count):
        log.append_as_leader(batch(b"x" * 20), 0)
    log.close()
    log = reopened(disk, config, is_clean=True, recovery_point=count)
    sizes: list[int] = []
    read = MemoryFile.read

    def counted(file: MemoryFile, position: int, size: int) -> bytes:
        sizes.append(size)
        return read(file, position, size)

    monkeypatch.setattr(MemoryFile, "read", counted)
    log.locate(count // 2, 1 << 20, count)
    assert sum(sizes) < 5000
    assert len(sizes) < 20


def test_the_tail_is_found_without_a_read(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    info = log.append_as_leader(batch(b"tail"), 0)
    monkeypatch.setattr(type(log.segments.active.file), "read", None)
    found = log.locate(info.base_offset, 1 << 20, log.log_end_offset)
    assert found is not None
    assert found.position + found.size == log.segments.active.size


def test_a_timestamp_finds_the_first_record_at_or_after_it(log: Log) -> None:
    assert log.offset_for_timestamp(NOW_MS - 5, 120) == (NOW_MS, 0, 0)
    assert log.offset_for_timestamp(NOW_MS + 17, 120) == (NOW_MS + 17, 34, 0)
    assert log.offset_for_timestamp(NOW_MS + 60, 120) is None
    assert log.offset_for_timestamp(NOW_MS + 17, 34) is None


def test_a_timestamp_is_searched_inside_a_batch_and_above_the_log_start() -> None:
    log = new_log(MemoryDisk())
    for compression in (Compression.NONE, Compression.ZSTD):
        records = [
            Record(b"k", b"v", offset_delta=n, timestamp_delta_ms=delta) for n, delta in enumerate((0, 50, 20, 90))
        ]
        log.append_as_leader(memoryview(encode_batch(records, base_timestamp_ms=NOW_MS, compression=compression)), 2)
    assert log.offset_for_timestamp(NOW_MS + 30, 8) == (NOW_MS + 50, 1, 2)
    assert log.offset_for_timestamp(NOW_MS + 51, 8) == (NOW_MS + 90, 3, 2)
    log.advance_log_start(2)
    assert log.offset_for_timestamp(NOW_MS + 30, 8) == (NOW_MS + 90, 3, 2)
    log.advance_log_start(4)
    assert log.offset_for_timestamp(NOW_MS + 30, 8) == (NOW_MS + 50, 5, 2)


def test_timestamps_out_of_order_are_found_in_the_order_of_offsets() -> None:
    log = new_log(MemoryDisk())
    deltas = [5, 900, 3, 7, 950, 2, 1] * 12
    for delta in deltas:
        log.append_as_leader(batch(b"x" * 50, timestamp_ms=NOW_MS + delta), 0)
    for wanted in (0, 4, 6, 8, 901, 950):
        expected = next(offset for offset, delta in enumerate(deltas) if delta >= wanted)
        found = log.offset_for_timestamp(NOW_MS + wanted, log.log_end_offset)
        assert found is not None
        assert found.offset == expected


def test_the_record_with_the_largest_timestamp_is_found() -> None:
    log = new_log(MemoryDisk())
    assert log.offset_of_max_timestamp() is None
    for delta in (5, 900, 3):
        log.append_as_leader(batch(b"x", b"y", timestamp_ms=NOW_MS + delta), 1)
    assert log.offset_of_max_timestamp() == (NOW_MS + 900, 2, 1)


def test_a_follower_keeps_gaps_and_reads_across_them() -> None:
    log = new_log(MemoryDisk())
    first = encode_batch([Record(b"k", b"a")], base_offset=3, leader_epoch=1)
    second = encode_batch([Record(b"k", b"b")], base_offset=10, leader_epoch=2)
    log.append_as_follower(memoryview(first + second + second[: HEADER_SIZE + 1]))
    assert log.log_end_offset == 11
    assert read_all(log) == [(3, b"a"), (10, b"b")]
    assert read_header(log.read(5, 1, 11)).base_offset == 10
    assert log.leader_epochs.entries == ((1, 3), (2, 10))


def test_a_follower_rejects_damaged_batches_and_lower_offsets() -> None:
    log = new_log(MemoryDisk())
    sound = encode_batch([Record(b"k", b"a")], base_offset=3)
    log.append_as_follower(memoryview(sound))
    with pytest.raises(ApiError):
        log.append_as_follower(memoryview(sound))
    damaged = bytearray(encode_batch([Record(b"k", b"a")], base_offset=4))
    damaged[-1] ^= 1
    with pytest.raises(ApiError) as rejected:
        log.append_as_follower(memoryview(damaged))
    assert rejected.value.code is ErrorCode.corrupt_message
    assert log.log_end_offset == 4


def test_a_long_search_for_a_timestamp_runs_in_steps() -> None:
    """The first batch has the second largest timestamp, so the index cannot exclude the batches in between."""
    log = new_log(MemoryDisk())
    log.append_as_leader(batch(b"first", timestamp_ms=NOW_MS + 10), 0)
    for _ in range(1500):
        log.append_as_leader(batch(b"early", timestamp_ms=NOW_MS), 0)
    log.append_as_leader(batch(b"last", timestamp_ms=NOW_MS + 20), 0)
    steps = list(log.search_timestamp(NOW_MS + 15))
    assert len(steps) >= 2
    assert set(steps) == {None}
    assert log.offset_for_timestamp(NOW_MS + 15, 2000) == (NOW_MS + 20, 1501, 0)


def test_a_search_finds_what_a_swap_of_files_has_moved() -> None:
    log = new_log(MemoryDisk())
    log.append_as_leader(batch(b"x", timestamp_ms=NOW_MS, compression=Compression.GZIP), 0)
    log.append_as_leader(batch(b"y", timestamp_ms=NOW_MS + 5, compression=Compression.GZIP), 0)
    steps = log.search_timestamp(NOW_MS)
    first = next(steps)
    assert first is not None
    again = steps.throw(StaleFile("the file that was read"))
    assert again is not None
    assert again.header.base_offset == 0
    with pytest.raises(StopIteration) as end:
        steps.send(again.find(again.file.read(again.position, again.header.size), lambda: None))
    assert end.value.value == (NOW_MS, 0, 0)
