"""Malformed bytes: decoding raises or returns well-formed rows, and never reads a byte after the given ones.

The malformed bytes end where a protected page begins, so a read beyond them would end the test run.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.client.record_rows import LIMIT_BYTES, PARTITION, TOPIC, expected_rows, logs

from catchment.client.columns.decoding import CorruptRecords, Decoded, OldMessageFormat, decode
from catchment.client.columns.schema import ALL_COLUMNS
from catchment.client.warming import warm
from catchment.protocol.batch import HEADER_SIZE, CorruptBatch
from catchment.protocol.compression import Compression
from catchment.protocol.records import Record, encode_batch, iterate_records, numbered
from catchment.protocol.wire import varint

_ROOM_BYTES: Final = 16 * mmap.PAGESIZE
_NO_ACCESS: Final = 0
_READ_WRITE: Final = 3

Placed = Callable[[bytes], memoryview]
one_batch = encode_batch(
    [Record(b"key", b"value" * 20, (("header", b"x"), ("é", None)), 0, 5), Record(None, None, (), 1, -5)] * 2
)
flips = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 7)), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def placed() -> Iterator[Placed]:
    """Puts bytes right before a page that cannot be read."""
    warm()
    memory = mmap.mmap(-1, _ROOM_BYTES + mmap.PAGESIZE)
    anchor = ctypes.c_char.from_buffer(memory)
    guard = ctypes.c_void_p(ctypes.addressof(anchor) + _ROOM_BYTES)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert protect(guard, mmap.PAGESIZE, _NO_ACCESS) == 0

    def topic_partition(data: bytes) -> memoryview:
        memory[_ROOM_BYTES - len(data) : _ROOM_BYTES] = data
        return memoryview(memory)[_ROOM_BYTES - len(data) : _ROOM_BYTES]

    yield topic_partition
    assert protect(guard, mmap.PAGESIZE, _READ_WRITE) == 0


def attempt(data: memoryview, columns: tuple[str, ...] = ALL_COLUMNS, *, validate_crc: bool = False) -> Decoded | None:
    """The decoded rows, checked to be well formed; None if decoding rejects the bytes."""
    try:
        result = decode(data, columns, topic=TOPIC, partition=PARTITION, start_offset=0, validate_crc=validate_crc)
    except (CorruptRecords, OldMessageFormat):
        return None
    result.batch.validate(full=True)
    return result


@given(data=logs(), positions=flips)
def test_flipped_bits_are_rejected_or_decoded_to_well_formed_rows(
    placed: Placed, data: bytes, positions: list[tuple[int, int]]
) -> None:
    damaged = bytearray(data or one_batch)
    for position, bit in positions:
        damaged[position % len(damaged)] ^= 1 << bit
    view = placed(bytes(damaged)[-_ROOM_BYTES:])
    for columns in (ALL_COLUMNS, ("offset",), ("value",), ("key", "headers")):
        attempt(view, columns)


@given(positions=flips)
def test_the_crc_detects_flipped_bits_after_the_leader_epoch(placed: Placed, positions: list[tuple[int, int]]) -> None:
    damaged = bytearray(one_batch)
    first_covered = 17
    for position, bit in positions:
        damaged[first_covered + position % (len(damaged) - first_covered)] ^= 1 << bit
    assert bytes(damaged) == one_batch or attempt(placed(bytes(damaged)), validate_crc=True) is None


@given(payload=st.binary(max_size=80), count=st.integers(-2, 6))
@example(payload=varint(2**31 - 1) + bytes(20), count=1)
@example(payload=varint(-1) + bytes(20), count=1)
@example(payload=b"\xff" * 20, count=1)
@example(payload=bytes(14), count=2)
@example(payload=b"\x0c\x00\x00\x00\x01\x01\x00", count=1)
@example(payload=b"\x0c\x00\x00\x00\x01\x01\x02", count=1)
@example(payload=b"\x0c\x00\x00\x00\x7f\x01\x00", count=1)
def test_any_payload_is_decoded_or_rejected_as_by_the_record_reader(placed: Placed, payload: bytes, count: int) -> None:
    batch = bytearray(encode_batch([], base_timestamp_ms=0) + payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    # A record's timestamp may be one that Arrow cannot hold; another test is about that.
    result = attempt(placed(bytes(batch)), tuple(name for name in ALL_COLUMNS if name != "timestamp"))
    try:
        expected = list(iterate_records(payload, count))
    except CorruptBatch:
        assert result is None
    else:
        assert result is not None
        rows = result.batch.to_pylist()
        assert [(row["key"], row["value"]) for row in rows] == [
            (record.key, record.value) for record in expected if record.offset_delta >= 0
        ]


def test_every_truncation_of_a_payload_is_rejected(placed: Placed) -> None:
    payload = one_batch[HEADER_SIZE:]
    for size in range(len(payload)):
        cut = bytearray(one_batch[: HEADER_SIZE + size])
        cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
        assert attempt(placed(bytes(cut))) is None


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_truncated_compressed_records_are_rejected(placed: Placed, codec: Compression) -> None:
    whole = encode_batch(numbered([(b"key", b"value" * 50)] * 20), compression=codec)
    assert attempt(placed(whole), validate_crc=True) is not None
    for size in range(HEADER_SIZE, len(whole)):
        cut = bytearray(whole[:size])
        cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
        assert attempt(placed(bytes(cut))) is None


def test_a_batch_that_claims_billions_of_records_is_rejected_before_memory_is_taken(placed: Placed) -> None:
    batch = bytearray(one_batch)
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    assert attempt(placed(bytes(batch))) is None


def test_records_that_claim_billions_of_headers_are_rejected_before_memory_is_taken(placed: Placed) -> None:
    body = b"\x00\x00\x00\x01\x01" + varint(2**31 - 1)
    payload = 2 * (varint(len(body)) + body)
    batch = bytearray(encode_batch([]) + payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = (2).to_bytes(4, "big")
    assert attempt(placed(bytes(batch)), ("headers",)) is None


@given(data=logs())
def test_valid_bytes_before_the_guarded_page_are_all_read(placed: Placed, data: bytes) -> None:
    if len(data) > min(_ROOM_BYTES, LIMIT_BYTES):
        return
    result = attempt(placed(data), validate_crc=True)
    assert result is not None
    assert result.batch.to_pylist() == expected_rows(data)
