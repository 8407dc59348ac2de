"""Fetched bytes as Arrow rows, compared with the protocol's own record reader."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.record_rows import PARTITION, TOPIC, expected_rows, logs, next_offset_of

from catchment.client.columns.decoding import CorruptRecords, Decoded, OldMessageFormat, decode
from catchment.client.columns.schema import ALL_COLUMNS, DEFAULT_COLUMNS, record_schema
from catchment.client.warming import warm
from catchment.protocol.compression import Compression
from catchment.protocol.records import Record, encode_batch, encode_record, numbered


@pytest.fixture(scope="module", autouse=True)
def _compiled_loops() -> None:
    """Compile first, so that no example of a property waits for the compiler."""
    warm()


def decoded(
    data: bytes | memoryview, columns: Sequence[str] = ALL_COLUMNS, start_offset: int = 0, **options: Any
) -> Decoded:
    result = decode(data, columns, topic=TOPIC, partition=PARTITION, start_offset=start_offset, **options)
    result.batch.validate(full=True)
    return result


def values(data: bytes, start_offset: int = 0, **options: Any) -> list[bytes | None]:
    rows: list[bytes | None] = decoded(data, ["value"], start_offset, **options).batch.column("value").to_pylist()
    return rows


def batch_of(*contents: bytes, at: int, **options: Any) -> bytes:
    return encode_batch(numbered((None, value) for value in contents), base_offset=at, **options)


def marker(producer_id: int, *, commit: bool, at: int) -> bytes:
    records = [Record(struct.pack(">hh", 0, commit), struct.pack(">hi", 0, 0))]
    return encode_batch(records, base_offset=at, producer_id=producer_id, is_transactional=True, is_control=True)


@given(logs(), st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, unique=True))
def test_rows_equal_those_of_the_record_reader_for_any_columns(data: bytes, columns: list[str]) -> None:
    result = decoded(data, columns)
    assert result.batch.schema == record_schema(columns)
    assert result.batch.to_pylist() == [{name: row[name] for name in columns} for row in expected_rows(data)]
    assert result.next_offset == next_offset_of(data, 0)


@given(logs(), st.integers(0, 2500), st.integers(0, 2500))
def test_only_offsets_in_range_give_rows_and_the_next_offset_stays_in_it(data: bytes, start: int, length: int) -> None:
    end = start + length
    result = decoded(data, ["offset"], start, end_offset=end)
    expected = [row["offset"] for row in expected_rows(data) if start <= row["offset"] < end]
    assert result.batch.column("offset").to_pylist() == expected
    assert start <= result.next_offset <= end
    assert decoded(data, ["offset"], result.next_offset, end_offset=end).batch.num_rows == 0


def test_a_partial_batch_at_the_end_is_ignored() -> None:
    whole, cut = batch_of(b"a", b"b", at=10), batch_of(b"c", at=12)
    for size in range(len(cut)):
        assert decoded(whole + cut[:size], ["value"]).next_offset == 12
    assert decoded(cut[:-1], ["value"], 12) == Decoded(pa.RecordBatch.from_pylist([], record_schema(["value"])), 12)


def test_the_next_offset_is_after_records_that_compaction_removed() -> None:
    lost_its_last = encode_batch([Record(b"k", b"kept", (), 2, 0)], base_offset=100, last_offset_delta=9)
    lost_all = encode_batch([], base_offset=110, last_offset_delta=4)
    result = decoded(lost_its_last + lost_all, ["offset"], 100)
    assert result.batch.column("offset").to_pylist() == [102]
    assert result.next_offset == 115


def test_control_batches_have_no_rows_but_advance_the_offset() -> None:
    data = batch_of(b"a", at=0, producer_id=7, is_transactional=True) + marker(7, commit=True, at=1)
    assert values(data) == [b"a"]
    assert decoded(data, ["value"]).next_offset == 2


def test_aborted_transactions_are_dropped_up_to_their_marker() -> None:
    transactional: Any = {"is_transactional": True}
    data = (
        batch_of(b"aborted 7", at=0, producer_id=7, **transactional)
        + batch_of(b"committed 8", at=1, producer_id=8, **transactional)
        + batch_of(b"plain", at=2)
        + batch_of(b"aborted 7 too", at=3, producer_id=7, **transactional)
        + marker(8, commit=True, at=4)
        + marker(7, commit=False, at=5)
        + batch_of(b"committed 7", at=6, producer_id=7, **transactional)
        + marker(7, commit=True, at=7)
        + batch_of(b"aborted again", at=8, producer_id=7, **transactional)
        + marker(7, commit=False, at=9)
    )
    assert values(data, aborted=[(7, 8), (7, 0)]) == [b"committed 8", b"plain", b"committed 7"]
    assert decoded(data, ["value"], aborted=[(7, 0), (7, 8)]).next_offset == 10


def test_a_transaction_aborted_before_the_fetched_range_still_drops_its_batches() -> None:
    data = batch_of(b"aborted", at=50, producer_id=7, is_transactional=True) + batch_of(b"kept", at=51)
    assert values(data, 50, aborted=[(7, 20)]) == [b"kept"]


def test_a_batch_with_a_wrong_crc_is_rejected_by_its_offset() -> None:
    damaged = bytearray(batch_of(b"a", at=0) + batch_of(b"b", at=1))
    damaged[-2] ^= 1
    with pytest.raises(CorruptRecords, match=r"orders-3 .* the batch at 1 does not match its CRC"):
        values(bytes(damaged))
    assert values(bytes(damaged), validate_crc=False) == [b"a", b"c"]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_the_old_formats_are_rejected_by_name(magic: int) -> None:
    message = struct.pack(">qiIbb", 5, 30, 0, magic, 0) + bytes(24)
    with pytest.raises(OldMessageFormat, match=f"format {magic}"):
        values(message)


def test_batches_whose_offsets_go_backwards_are_rejected() -> None:
    with pytest.raises(CorruptRecords, match="a batch from 4 to 5 where offset 6 or more was expected"):
        values(batch_of(b"a", at=5) + batch_of(b"b", at=4))


@pytest.mark.parametrize(
    ("base_offset", "last_offset_delta"), [(10, -1), (2**63 - 1, 0), (2**63 - 5, 2**31 - 1), (-1, 0)]
)
def test_batches_with_an_overflowing_end_are_rejected(base_offset: int, last_offset_delta: int) -> None:
    with pytest.raises(CorruptRecords, match=f"a batch from {base_offset} to "):
        values(batch_of(b"a", at=base_offset, last_offset_delta=last_offset_delta))


def test_small_data_that_unpacks_to_a_lot_is_returned_in_parts() -> None:
    data = b"".join(batch_of(bytes(50_000), at=offset, compression=Compression.ZSTD) for offset in range(5))
    offsets: list[int] = []
    parts = position = 0
    while position < 5:
        part = decoded(data, ["offset"], position, max_unpacked_bytes=90_000)
        offsets += part.batch.column("offset").to_pylist()
        position = part.next_offset
        parts += 1
    assert (offsets, parts) == ([0, 1, 2, 3, 4], 3)


def test_a_batch_that_unpacks_to_more_than_its_bound_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.client.columns.decoding.LARGEST_BATCH_BYTES", 1000)
    fits = batch_of(bytes(900), at=0, compression=Compression.GZIP)
    assert values(fits) == [bytes(900)]
    with pytest.raises(CorruptRecords, match="unpacks to more than 1000 bytes"):
        values(batch_of(bytes(1001), at=0, compression=Compression.GZIP))


def test_a_time_that_arrow_cannot_hold_is_rejected_only_if_times_are_requested() -> None:
    data = encode_batch([Record(None, b"v")], base_timestamp_ms=2**62)
    assert values(data) == [b"v"]
    with pytest.raises(CorruptRecords, match="leave out the column timestamp"):
        decoded(data)


def test_header_names_that_are_not_utf_8_become_text_as_in_java() -> None:
    record = Record(None, b"v", (("\udcff-é", b"1"), ("plain", None)))
    headers = decoded(encode_batch([record]), ["headers"]).batch.to_pylist()[0]["headers"]
    assert headers == [{"key": "\ufffd-é", "value": b"1"}, {"key": "plain", "value": None}]


def test_a_header_without_a_name_is_rejected() -> None:
    record = bytearray(encode_record(Record(None, None, (("", None),))))
    assert record[-2:] == b"\x00\x01"
    record[-2] = 1
    data = bytearray(encode_batch([Record(None, None, (("", None),))]))
    data[-len(record) :] = record
    with pytest.raises(CorruptRecords, match="the batch at 0 has a header without a key"):
        decoded(bytes(data), validate_crc=False)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["valeu"], "did you mean 'value'"),
        (["value", "value"], "twice"),
        ([], "at least one"),
        (["xyz"], "there are key, "),
    ],
)
def test_unknown_columns_are_rejected(columns: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decoded(b"", columns)


def test_all_kinds_of_buffers_are_read() -> None:
    data = batch_of(b"a", at=0)
    for buffer in (data, memoryview(data), memoryview(bytearray(data)), memoryview(b"x" + data)[1:]):
        assert decoded(buffer, DEFAULT_COLUMNS).batch.column("value").to_pylist() == [b"a"]


def test_many_rows_of_a_long_topic_name_are_decoded() -> None:
    data = encode_batch(numbered([(None, None)] * 100_000))
    topic = "t" * 249
    names = decode(data, ["topic"], topic=topic, partition=0, start_offset=0).batch.column("topic")
    names.validate(full=True)
    assert names.unique().to_pylist() == [topic]
    assert len(names) == 100_000
