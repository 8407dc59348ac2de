"""Compaction case by case: what may be cleaned, and what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.storage.compaction.cleaning import COMPACTED, batches, clean, data_records, job_for, keyed, run
from tests.storage.logs import NOW_MS, check_indexes, marker, names, new_log, path_of

from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.batch import CorruptBatch
from catchment.protocol.compression import Compression
from catchment.protocol.records import Record, encode_batch
from catchment.storage.compaction.filter import keys_in
from catchment.storage.compaction.plan import find_dirty_section, find_sources, plan
from catchment.storage.compaction.rewrite import rewrite
from catchment.storage.config import LogConfig
from catchment.storage.log import Log


class Compacted:
    """A log, its disk and its clock."""

    def __init__(self, config: LogConfig = COMPACTED) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock(NOW_MS)
        self.log: Log = new_log(self.disk, config, self.clock)
        self.clean_offset: int | None = None

    def append(self, *pairs: tuple[bytes, bytes | None], producer_id: int = -1, sequence: int = -1) -> int:
        data = keyed(*pairs, timestamp_ms=self.clock.now_ms(), producer_id=producer_id, sequence=sequence)
        return self.log.append_as_leader(data, 0).base_offset

    def append_in_transaction(self, *pairs: tuple[bytes, bytes | None], sequence: int = 0) -> None:
        data = keyed(*pairs, timestamp_ms=self.clock.now_ms(), producer_id=7, sequence=sequence, is_transactional=True)
        self.log.append_as_leader(data, 0)

    def end(self, *, is_commit: bool) -> None:
        self.log.append_as_leader(marker(7, is_commit=is_commit), 0, is_from_client=False)

    def clean(self, most_keys: int = 1000) -> None:
        self.clean_offset = clean(self.disk, self.log, self.clean_offset, most_keys)
        check_indexes(self.log)

    def roll_and_clean(self) -> None:
        self.log.roll()
        self.clean()

    @property
    def values(self) -> dict[bytes | None, bytes | None]:
        """What a reader of the whole log ends up with."""
        return {record.key: record.value for record in data_records(self.log)}

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in data_records(self.log)]


def test_the_last_value_of_each_key_is_left_at_its_offset() -> None:
    made = Compacted()
    for number in range(20):
        made.append((b"a", b"%d" % number), (b"b", b"%d" % number))
    made.roll_and_clean()
    assert made.offsets == [38, 39]
    assert made.values == {b"a": b"19", b"b": b"19"}


def test_the_active_segment_and_open_transactions_are_not_cleaned() -> None:
    made = Compacted()
    made.append((b"a", b"1"))
    made.append_in_transaction((b"a", b"2"))
    made.log.roll()
    made.append((b"a", b"3"))
    made.log.roll()
    dirty = find_dirty_section(made.log, None, made.log.last_stable_offset(made.log.log_end_offset), NOW_MS)
    assert (dirty.end_offset, dirty.dirty_bytes) == (0, 0)
    made.end(is_commit=True)
    made.clean()
    assert made.offsets == [2]
    assert find_dirty_section(made.log, 0, 1, NOW_MS).end_offset == 0


def test_segments_younger_than_the_lag_are_not_cleaned() -> None:
    made = Compacted(replace(COMPACTED, min_compaction_lag_ms=1000))
    made.append((b"a", b"1"))
    made.log.roll()
    made.clock.advance(600)
    made.append((b"a", b"2"))
    made.log.roll()
    end = made.log.log_end_offset
    assert find_dirty_section(made.log, None, end, NOW_MS + 999).end_offset == 0
    assert find_dirty_section(made.log, None, end, NOW_MS + 1000).end_offset == 1
    assert find_dirty_section(made.log, None, end, NOW_MS + 1600).end_offset == 2


def test_a_log_is_due_by_its_dirty_ratio_or_the_maximum_lag() -> None:
    made = Compacted(replace(COMPACTED, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=5000, segment_bytes=200))
    for _ in range(10):
        made.append((b"a", bytes(50)))
    made.log.roll()
    end, config = made.log.log_end_offset, made.log.config
    assert find_dirty_section(made.log, 4, end, NOW_MS).is_due(config)
    late = find_dirty_section(made.log, 8, end, NOW_MS)
    assert 0 < late.dirty_ratio < 0.5
    assert not late.is_due(config)
    assert find_dirty_section(made.log, 8, end, NOW_MS + 5001).is_due(config)
    assert not find_dirty_section(made.log, end, end, NOW_MS + 5001).is_due(config)


def test_records_that_must_be_compacted_in_time_leave_the_active_segment_in_time() -> None:
    made = Compacted(replace(COMPACTED, max_compaction_lag_ms=5000))
    made.append((b"a", b"1"))
    made.clock.advance(5000)
    made.append((b"a", b"2"))
    assert len(made.log.segments) == 1
    made.clock.advance(1)
    made.append((b"a", b"3"))
    assert len(made.log.segments) == 2


@pytest.mark.parametrize("clean_offset", [-1, 5, 1000])
def test_a_checkpoint_outside_the_log_is_ignored(clean_offset: int) -> None:
    made = Compacted(replace(COMPACTED, segment_bytes=200))
    for _ in range(10):
        made.append((b"a", bytes(50)))
    made.log.roll()
    made.log.advance_log_start(6)
    assert find_dirty_section(made.log, clean_offset, made.log.log_end_offset, NOW_MS).first_offset == 6


def test_a_tombstone_stays_for_delete_retention_after_its_first_cleaning() -> None:
    made = Compacted()
    made.append((b"a", b"1"), (b"b", b"1"))
    made.append((b"a", None))
    made.clock.advance(100_000)
    made.roll_and_clean()
    assert made.values == {b"b": b"1", b"a": None}
    header = next(header for header, records in batches(made.log) if any(record.value is None for record in records))
    assert header.has_delete_horizon
    assert header.base_timestamp_ms == NOW_MS + 110_000
    assert header.max_timestamp_ms == NOW_MS
    assert [record.timestamp_ms for record in data_records(made.log)] == [NOW_MS + 1, NOW_MS]
    made.clock.advance(9_999)
    made.append((b"c", b"1"))
    made.roll_and_clean()
    assert made.values == {b"b": b"1", b"a": None, b"c": b"1"}
    made.clock.advance(1)
    made.append((b"d", b"1"))
    made.roll_and_clean()
    assert made.values == {b"b": b"1", b"c": b"1", b"d": b"1"}


def test_aborted_records_are_removed_and_their_marker_after_its_horizon() -> None:
    made = Compacted()
    made.append((b"a", b"1"))
    made.append_in_transaction((b"a", b"2"), (b"b", b"2"))
    made.end(is_commit=False)
    made.append((b"other", b"1"), producer_id=7, sequence=2)
    made.roll_and_clean()
    assert made.values == {b"a": b"1", b"other": b"1"}
    assert made.log.aborted_transactions(0, 10) == [(7, 1)]
    for wait_ms, marker_is_left in ((0, True), (9_999, True), (1, False)):
        made.clock.advance(wait_ms)
        made.append((b"c", b"1"))
        made.roll_and_clean()
        assert any(header.is_control for header, _ in batches(made.log)) == marker_is_left
        assert made.log.aborted_transactions(0, 10) == []


def test_a_commit_marker_stays_while_its_transaction_has_a_record() -> None:
    made = Compacted()
    made.append_in_transaction((b"a", b"1"))
    made.end(is_commit=True)
    made.append((b"other", b"1"), producer_id=7, sequence=1)
    for _ in range(3):
        made.append((b"b", b"1"))
        made.clock.advance(20_000)
        made.roll_and_clean()
    assert sum(header.is_control for header, _ in batches(made.log)) == 1
    for wait_ms in (0, 0, 10_000):
        made.append((b"a", b"2"))
        made.clock.advance(wait_ms)
        made.roll_and_clean()
    assert not any(header.is_control for header, _ in batches(made.log))


def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    made = Compacted()
    made.append((b"a", b"1"), (b"b", b"1"), producer_id=3, sequence=0)
    made.append((b"a", b"2"), (b"b", b"2"), producer_id=3, sequence=2)
    made.append((b"a", b"3"), (b"b", b"3"))
    made.roll_and_clean()
    [(empty, records), _] = batches(made.log)
    assert records == []
    assert (empty.producer_id, empty.base_sequence, empty.last_sequence, empty.record_count) == (3, 2, 3, 0)
    assert (empty.base_offset, empty.last_offset, empty.max_timestamp_ms) == (2, 3, NOW_MS + 1)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_with_fewer_records_keeps_its_codec_headers_and_bounds(compression: Compression) -> None:
    made = Compacted()
    records = [
        Record(key, bytes(100), (("h", b"1"), ("n", None)), delta, 10 * delta)
        for delta, key in enumerate((b"gone", b"kept", b"late"))
    ]
    data = encode_batch(records, base_timestamp_ms=NOW_MS, compression=compression)
    made.log.append_as_leader(memoryview(data), 5)
    made.append((b"gone", b"2"), (b"late", b"2"))
    made.roll_and_clean()
    header, left = batches(made.log)[0]
    assert left == [records[1]]
    assert (header.base_offset, header.last_offset_delta, header.compression) == (0, 2, compression)
    assert (header.leader_epoch, header.max_timestamp_ms) == (5, NOW_MS + 10)


def test_a_batch_with_fewer_records_and_log_append_time_keeps_its_time() -> None:
    made = Compacted(replace(COMPACTED, message_timestamp_type="LogAppendTime"))
    made.append((b"a", b"1"), (b"b", None))
    made.clock.advance(50)
    made.append((b"a", b"2"))
    made.roll_and_clean()
    header, left = batches(made.log)[0]
    assert [record.key for record in left] == [b"b"]
    assert header.is_log_append_time
    assert header.max_timestamp_ms == NOW_MS


def test_segments_are_merged_up_to_the_size_of_one_and_leave_no_gap() -> None:
    made = Compacted(replace(COMPACTED, segment_bytes=400))
    for number in range(60):
        made.append((b"%d" % (number % 25), bytes(30)))
    made.log.roll()
    before = len(made.log.segments)
    made.clean()
    made.append((b"x", bytes(30)))
    made.roll_and_clean()
    assert len(made.log.segments) < before
    ends = []
    for segment in list(made.log.segments)[:-1]:
        assert 0 < segment.size <= 400
        last = segment.last_batch()
        assert last is not None
        ends.append(last.next_offset)
    assert ends == [segment.base_offset for segment in list(made.log.segments)[1:]]
    assert names(made.disk, ".cleaned") == names(made.disk, ".swap") == []


def test_more_keys_than_the_map_holds_are_cleaned_in_passes_that_lose_nothing() -> None:
    made = Compacted()
    for number in range(100):
        made.append((b"%d" % (number % 40), b"%d" % number))
    made.log.roll()
    expected = made.values
    passes = 0
    while made.clean_offset != made.log.log_end_offset:
        made.clean(most_keys=15)
        assert made.values == expected
        passes += 1
    assert passes > 2
    assert sorted(made.offsets) == list(range(60, 100))


def test_a_batch_with_more_keys_than_the_map_holds_is_still_cleaned() -> None:
    made = Compacted()
    made.append(*[(b"%d" % number, b"old") for number in range(30)])
    made.append(*[(b"%d" % number, b"new") for number in range(30)])
    made.log.roll()
    for _ in range(2):
        made.clean(most_keys=1)
    assert made.offsets == list(range(30, 60))


def test_a_buffer_of_any_size_holds_some_keys() -> None:
    assert keys_in(0) == 1024
    assert keys_in(128 << 20) == (128 << 20) // 192


def test_records_without_a_key_are_removed_once_a_topic_is_compacted() -> None:
    made = Compacted(replace(COMPACTED, cleanup_policy=frozenset({"delete"})))
    data = encode_batch([Record(None, b"x"), Record(b"a", b"1", offset_delta=1)], base_timestamp_ms=NOW_MS)
    made.log.append_as_leader(memoryview(data), 0)
    made.log.update_config(COMPACTED)
    made.roll_and_clean()
    assert made.offsets == [1]


def test_old_segments_free_their_space_after_the_delay() -> None:
    made = Compacted(replace(COMPACTED, file_delete_delay_ms=1000))
    made.append((b"a", b"1"))
    made.roll_and_clean()
    assert len(names(made.disk, ".deleted")) == 3
    made.log.remove_deleted(NOW_MS + 999)
    assert len(names(made.disk, ".deleted")) == 3
    made.log.remove_deleted(NOW_MS + 1000)
    assert names(made.disk, ".deleted") == []
    assert made.values == {b"a": b"1"}


def test_retention_deletes_compacted_segments_too() -> None:
    made = Compacted(
        replace(COMPACTED, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=60_000, segment_bytes=200)
    )
    for number in range(10):
        made.append((b"%d" % number, bytes(50)))
    made.roll_and_clean()
    made.clock.advance(50_000)
    made.append((b"young", b"1"))
    made.roll_and_clean()
    made.clock.advance(20_000)
    assert made.log.apply_retention(made.clock.now_ms(), made.log.log_end_offset) > 0
    # The last of the old ones may share a segment with the young one, and whole segments are deleted.
    assert b"young" in made.values
    assert not {b"0", b"1", b"2", b"3"} & set(made.values)
    assert made.log.log_start_offset == made.log.segments.first_offset > 0


def test_a_damaged_segment_fails_the_job_and_is_kept() -> None:
    made = Compacted()
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.log.roll()
    file = made.disk.open_file(path_of(0))
    damaged = bytearray(file.read(0, file.size))
    damaged[-1] ^= 1
    file.truncate(0)
    file.append([damaged])
    job = job_for(made.log)
    assert job is not None
    with pytest.raises(CorruptBatch, match="damaged"):
        run(rewrite(made.disk, job))
    assert file.read(0, file.size) == damaged


def test_segments_that_changed_meanwhile_are_not_replaced() -> None:
    made = Compacted(replace(COMPACTED, segment_bytes=200))
    for _ in range(10):
        made.append((b"a", bytes(50)))
    made.log.roll()
    job = plan(made.log, find_dirty_section(made.log, None, 10, NOW_MS), NOW_MS, 1000)
    assert all(find_sources(made.log, job, group) for group in job.groups)
    made.log.advance_log_start(5)
    assert find_sources(made.log, job, job.groups[0]) is None
    assert find_sources(made.log, job, job.groups[-1]) is not None
    made.log.truncate_to(9)
    assert find_sources(made.log, job, job.groups[-1]) is None
