"""Records inside batches, compared with aiokafka's reader and writer."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from catchment.protocol.batch import CorruptBatch, check, read_header
from catchment.protocol.compression import Compression
from catchment.protocol.records import (
    Record,
    encode_batch,
    encode_record,
    find_without_key,
    iterate_records,
    iterate_times,
    numbered,
    read_records,
)

LIMIT_BYTES = 1 << 20

nullable_bytes = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    key=nullable_bytes,
    value=nullable_bytes,
    headers=st.lists(st.tuples(st.text(max_size=10), nullable_bytes), max_size=3).map(tuple),
    offset_delta=st.integers(-(2**31), 2**31 - 1),
    timestamp_delta_ms=st.integers(-(2**63), 2**63 - 1),
)


@given(st.lists(records, max_size=5))
def test_records_survive_encoding(batch: list[Record]) -> None:
    data = b"".join(map(encode_record, batch))
    assert list(iterate_records(data, len(batch))) == batch
    assert list(iterate_times(data, len(batch))) == [(one.timestamp_delta_ms, one.offset_delta) for one in batch]


@pytest.mark.parametrize("compression", list(Compression))
def test_aiokafka_reads_our_batches(compression: Compression) -> None:
    ours = [
        Record(b"k", b"v" * 100, (("h", b"x"), ("é", None)), 0, 0),
        Record(None, b"", (), 1, 5),
        Record(b"", None, (), 4, 300),
    ]
    data = encode_batch(ours, base_offset=1000, base_timestamp_ms=1_700_000_000_000, compression=compression)
    check(memoryview(data))
    theirs = DefaultRecordBatch(data)
    assert theirs.validate_crc()
    read = [(one.offset, one.timestamp, one.key, one.value, list(one.headers)) for one in theirs]
    assert read == [
        (1000, 1_700_000_000_000, b"k", b"v" * 100, [("h", b"x"), ("é", None)]),
        (1001, 1_700_000_000_005, None, b"", []),
        (1004, 1_700_000_000_300, b"", None, []),
    ]


@pytest.mark.parametrize("compression", list(Compression))
def test_we_read_aiokafka_s_batches(compression: Compression) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression.value,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=100_000,
    )
    for index in range(50):
        builder.append(index, 1_000 + index, b"key", b"value" * index, [("h", b"1")])
    data = bytes(builder.build())
    check(memoryview(data))
    read = list(read_records(data, LIMIT_BYTES))
    assert read == [Record(b"key", b"value" * index, (("h", b"1"),), index, index) for index in range(50)]


def test_the_header_has_the_given_fields() -> None:
    header = read_header(
        encode_batch(
            numbered([(b"a", b"1"), (b"b", b"2")]),
            base_offset=7,
            base_timestamp_ms=100,
            max_timestamp_ms=900,
            last_offset_delta=5,
            leader_epoch=3,
            producer_id=11,
            producer_epoch=2,
            base_sequence=40,
            is_log_append_time=True,
            is_transactional=True,
            is_control=True,
            has_delete_horizon=True,
        )
    )
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.record_count) == (7, 12, 3, 2)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (100, 900)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 2, 40)
    assert header.is_log_append_time
    assert header.is_transactional
    assert header.is_control
    assert header.has_delete_horizon


def test_a_batch_of_no_records_can_be_kept_for_its_producer() -> None:
    data = encode_batch([], base_offset=9, last_offset_delta=3, compression=Compression.GZIP, producer_id=5)
    header = check(memoryview(data))
    assert (header.size, header.record_count, header.next_offset) == (61, 0, 13)


def test_header_names_that_are_not_utf_8_are_kept() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    record = Record(None, None, ((name, b""),))
    assert b"\xff\xfe" in encode_record(record)
    assert list(iterate_records(encode_record(record), 1)) == [record]


def test_records_that_end_anywhere_else_are_corrupt() -> None:
    data = encode_record(Record(b"key", b"value", (("h", b"x"),)))
    for size in range(len(data)):
        with pytest.raises(CorruptBatch):
            list(iterate_records(data[:size], 1))
        with pytest.raises(CorruptBatch):
            list(iterate_times(data[:size], 1))
    with pytest.raises(CorruptBatch):
        list(iterate_records(data + b"\x00", 1))


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_wrong_count_is_corrupt(count: int) -> None:
    data = encode_record(Record(b"key", b"value"))
    with pytest.raises(CorruptBatch):
        list(iterate_records(data, count))


@given(st.binary(max_size=80), st.integers(0, 8))
def test_random_bytes_are_records_or_corrupt(data: bytes, count: int) -> None:
    for iterate in (iterate_records, iterate_times):
        try:
            read: list[object] = list(iterate(data, count))
        except CorruptBatch:
            continue
        assert len(read) == count


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x00\x00\x00\x03\x01\x00\x00", id="a key of -2 bytes"),
        pytest.param(b"\x00\x00\x00\x01\x01\x01\x00", id="-1 headers"),
        pytest.param(b"\x00\x00\x00\x01\x01\x7e\x00", id="more headers than bytes"),
        pytest.param(b"\x00\x00\x00\x01\x01\x02\x01\x01", id="a header without a name"),
        pytest.param(b"\x00\x00\x00\x01\x01\x00\x00", id="a byte too many"),
        pytest.param(b"\x00\x00\x00\x7e\x01\x00\x00", id="a key beyond the record"),
    ],
)
def test_a_broken_record_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptBatch):
        list(iterate_records(bytes((len(body) * 2,)) + body, 1))


def _without_key_by_reading(data: bytes, count: int) -> list[int] | None:
    try:
        return [index for index, record in enumerate(iterate_records(data, count)) if record.key is None]
    except CorruptBatch:
        return None


def _without_key_by_skipping(data: bytes, count: int) -> list[int] | None:
    try:
        return find_without_key(data, count, 1000, lambda: None)
    except CorruptBatch:
        return None


@given(st.lists(records, max_size=20), st.data())
def test_keyless_records_are_found_and_corrupt_ones_rejected_as_by_the_reader(
    batch: list[Record], choices: st.DataObject
) -> None:
    data = bytearray(b"".join(map(encode_record, batch)))
    assert _without_key_by_skipping(bytes(data), len(batch)) == [
        index for index, record in enumerate(batch) if record.key is None
    ]
    for _ in range(choices.draw(st.integers(0, 3)) if data else 0):
        data[choices.draw(st.integers(0, len(data) - 1))] = choices.draw(st.integers(0, 255))
    assert _without_key_by_skipping(bytes(data), len(batch)) == _without_key_by_reading(bytes(data), len(batch))


def test_the_search_for_keyless_records_pauses_and_keeps_its_bound() -> None:
    pauses: list[None] = []
    data = encode_record(Record(None, b"v")) * 1000
    found = find_without_key(data, 1000, 10, lambda: pauses.append(None))
    assert found == list(range(10))
    assert len(pauses) == 3
