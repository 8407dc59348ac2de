"""What a producer may append, and the error for what it may not."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode
from tests.storage.logs import NOW_MS, batch, marker, new_log, read_all

from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.batch import iterate_headers, read_header, seal
from catchment.protocol.compression import Compression
from catchment.protocol.errors import ApiError
from catchment.protocol.records import Record, encode_batch, numbered, read_records
from catchment.storage.config import LogConfig
from catchment.storage.validation import prepare

_GOOD = batch(b"one", b"two")
_HOUR_MS = 3_600_000


def _patched(position: int, layout: str, value: int, *, is_sealed: bool = True) -> memoryview:
    data = bytearray(_GOOD)
    struct.pack_into(layout, data, position, value)
    if is_sealed:
        seal(data)
    return memoryview(data)


def _rejection(data: memoryview, config: LogConfig | None = None) -> ErrorCode:
    log = new_log(MemoryDisk(), config or LogConfig())
    with pytest.raises(ApiError) as rejected:
        log.append_as_leader(data, 0)
    assert log.log_end_offset == 0
    assert log.size_bytes == 0
    return rejected.value.code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (memoryview(b""), ErrorCode.invalid_record),
        (_GOOD[:40], ErrorCode.invalid_record),
        (_GOOD[:-1], ErrorCode.invalid_record),
        (memoryview(bytes(_GOOD) * 2), ErrorCode.invalid_record),
        (_patched(0, ">q", 7), ErrorCode.invalid_record),
        (_patched(16, ">b", 0), ErrorCode.invalid_record),
        (_patched(16, ">b", 1), ErrorCode.invalid_record),
        (_patched(57, ">i", 3), ErrorCode.invalid_record),
        (_patched(23, ">i", 5), ErrorCode.invalid_record),
        (_patched(23, ">i", -1), ErrorCode.invalid_record),
        (_patched(43, ">q", 4), ErrorCode.invalid_record),
        (marker(1, is_commit=True), ErrorCode.invalid_record),
        (_patched(21, ">h", 5), ErrorCode.unsupported_compression_type),
        (_patched(21, ">h", 8), ErrorCode.invalid_timestamp),
        (_patched(35, ">q", 1, is_sealed=False), ErrorCode.corrupt_message),
        (batch(b"late", timestamp_ms=NOW_MS + _HOUR_MS + 1), ErrorCode.invalid_timestamp),
    ],
    ids=[
        "nothing",
        "half a header",
        "a cut batch",
        "two batches",
        "an offset of its own",
        "magic 0",
        "magic 1",
        "more records than offsets",
        "more offsets than records",
        "no offsets",
        "a producer without sequence",
        "a control batch",
        "an unknown codec",
        "log append time",
        "a wrong CRC",
        "a timestamp in the future",
    ],
)
def test_an_invalid_batch_is_rejected_and_changes_nothing(data: memoryview, code: ErrorCode) -> None:
    assert _rejection(data) is code


def test_an_old_magic_is_reported_even_if_the_message_is_shorter_than_a_batch_header() -> None:
    assert _rejection(memoryview(bytes(16) + b"\x01" + bytes(10))) is ErrorCode.invalid_record


def test_a_batch_of_max_message_bytes_fits_and_one_byte_more_does_not() -> None:
    size = _GOOD.nbytes
    log = new_log(MemoryDisk(), LogConfig(max_message_bytes=size))
    assert log.append_as_leader(_GOOD, 0).last_offset == 1
    assert _rejection(_GOOD, LogConfig(max_message_bytes=size - 1)) is ErrorCode.message_too_large


def test_a_batch_larger_than_a_segment_is_rejected() -> None:
    assert _rejection(_GOOD, LogConfig(segment_bytes=_GOOD.nbytes - 1)) is ErrorCode.record_list_too_large


def test_timestamps_older_than_the_topics_limit_are_rejected() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    assert _rejection(batch(b"old", timestamp_ms=NOW_MS - 1001), config) is ErrorCode.invalid_timestamp
    log = new_log(MemoryDisk(), config)
    log.append_as_leader(batch(b"not so old", timestamp_ms=NOW_MS - 1000), 0)
    log.append_as_leader(batch(b"of no time", timestamp_ms=-1), 0)
    assert log.log_end_offset == 2


def test_log_append_time_is_set_in_the_batch_and_returned() -> None:
    log = new_log(MemoryDisk(), LogConfig(message_timestamp_type="LogAppendTime"))
    info = log.append_as_leader(batch(b"x", timestamp_ms=5), 0)
    header = read_header(log.read(0, 1000, 1))
    assert info.log_append_time_ms == NOW_MS
    assert header.is_log_append_time
    assert header.max_timestamp_ms == NOW_MS
    assert read_all(log) == [(0, b"x")]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_compacted_topic_rejects_a_record_without_key(compression: int) -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    assert _rejection(batch(b"x", key=None, compression=compression), config) is ErrorCode.invalid_record
    log = new_log(MemoryDisk(), config)
    log.append_as_leader(batch(b"x", key=b"k", compression=compression), 0)
    assert read_all(log) == [(0, b"x")]


@pytest.mark.parametrize(
    ("setting", "codec"),
    [("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)],
)
def test_a_topic_with_a_compression_type_recompresses(setting: str, codec: int) -> None:
    log = new_log(MemoryDisk(), replace(LogConfig(), compression_type=setting))
    for sent_codec in Compression:
        log.append_as_leader(
            batch(b"a" * 300, b"b", compression=sent_codec, producer_id=7, epoch=0, sequence=2 * sent_codec), 3
        )
    data = log.read(0, 1 << 20, log.log_end_offset)
    headers = list(iterate_headers(data))
    assert [header.compression for _, header in headers] == [codec] * len(Compression)
    assert {header.leader_epoch for _, header in headers} == {3}
    assert read_all(log)[-2:] == [(8, b"a" * 300), (9, b"b")]
    position, last = headers[-1]
    assert (last.producer_id, last.base_sequence) == (7, 8)
    assert [record.key for record in read_records(data[position:], 1000)] == [b"k", b"k"]


def test_damaged_records_are_rejected_where_the_batch_is_opened() -> None:
    data = bytearray(batch(b"x" * 50, compression=Compression.GZIP))
    data[-6] ^= 0xFF
    seal(data)
    config = LogConfig(compression_type="lz4")
    assert _rejection(memoryview(data), config) is ErrorCode.invalid_record


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_records_without_a_key_are_reported_by_their_index_in_the_batch(compression: int) -> None:
    """KIP-467: a client fails these and sends the others again."""
    keys = [b"k", None, b"k", None]
    records = [Record(key, b"v", offset_delta=delta) for delta, key in enumerate(keys)]
    data = encode_batch(records, base_timestamp_ms=NOW_MS, compression=compression)
    log = new_log(MemoryDisk(), LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(ApiError) as rejected:
        log.append_as_leader(memoryview(data), 0)
    assert [index for index, _ in rejected.value.record_errors] == [1, 3]


def test_the_number_of_reported_records_is_bounded() -> None:
    data = encode_batch(numbered([(None, b"v")] * 1500), base_timestamp_ms=NOW_MS)
    log = new_log(MemoryDisk(), LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(ApiError) as rejected:
        log.append_as_leader(memoryview(data), 0)
    assert len(rejected.value.record_errors) == 1000


def test_a_batch_that_grows_beyond_max_message_bytes_is_rejected() -> None:
    config = LogConfig(compression_type="uncompressed", max_message_bytes=1000)
    assert _rejection(batch(b"x" * 2000, compression=Compression.ZSTD), config) is ErrorCode.message_too_large


@pytest.mark.parametrize(
    ("config", "data", "is_costly"),
    [
        (LogConfig(), batch(b"x" * 100_000, compression=Compression.ZSTD), False),
        (LogConfig(cleanup_policy=frozenset({"compact"})), batch(b"x"), False),
        (LogConfig(cleanup_policy=frozenset({"compact"})), batch(b"x", compression=Compression.ZSTD), True),
        (LogConfig(cleanup_policy=frozenset({"compact"})), batch(b"x" * 10_000), True),
        (LogConfig(cleanup_policy=frozenset({"compact"}), max_message_bytes=1000), batch(b"x" * 10_000), False),
        (LogConfig(compression_type="lz4"), batch(b"x" * 10_000), True),
        (LogConfig(compression_type="lz4"), batch(b"x" * 10_000, compression=Compression.LZ4), False),
        (LogConfig(message_timestamp_type="LogAppendTime"), batch(b"x" * 10_000), False),
        (LogConfig(message_timestamp_type="LogAppendTime", max_message_bytes=1 << 24), batch(b"x" * (1 << 20)), True),
        (LogConfig(cleanup_policy=frozenset({"compact"})), memoryview(b"x" * 20), False),
    ],
)
def test_batches_that_take_long_to_prepare_are_recognised(config: LogConfig, data: memoryview, is_costly: bool) -> None:
    assert new_log(MemoryDisk(), config).is_costly(data) is is_costly


def test_a_batch_prepared_for_other_settings_is_prepared_again() -> None:
    log = new_log(MemoryDisk(), LogConfig(cleanup_policy=frozenset({"compact"})))
    prepared = prepare(batch(b"x" * 300), log.config, NOW_MS)
    log.update_config(LogConfig(compression_type="zstd"))
    log.append_as_leader(prepared, 0)
    assert read_header(log.read(0, 1000, 1)).compression == Compression.ZSTD
    assert read_all(log) == [(0, b"x" * 300)]
