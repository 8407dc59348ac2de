"""What the ceiling answers from."""

import struct

from catchment.bench.ceiling.hot import batches, read_unsigned_varint, unsigned_varint
from catchment.bench.ceiling.memory import RememberedPartition


def batch(records: int, filler: bytes = b"") -> memoryview:
    return memoryview(struct.pack(">qiibIhi", 0, 0, 0, 2, 0, 0, records - 1) + filler)


def test_offsets_increase_by_the_records_of_each_batch() -> None:
    partition = RememberedPartition()
    assert [partition.append(batch(count)) for count in (1, 10, 3)] == [0, 1, 11]
    assert partition.end_offset == 14


def test_a_consumer_gets_the_kept_batch_with_increasing_offsets_up_to_the_end() -> None:
    partition = RememberedPartition()
    partition.append(batch(2))
    partition.append(batch(2))
    pieces, size = partition.read(0, 1_000_000)
    assert [int.from_bytes(head, "big") for head in pieces[::2]] == [0, 2]
    assert size == sum(map(len, pieces)) == 2 * len(batch(2))
    assert partition.read(4, 1_000_000) == ([], 0)


def test_one_batch_is_returned_even_if_it_is_larger_than_the_limit() -> None:
    partition = RememberedPartition()
    partition.append(batch(1, b"x" * 500))
    partition.append(batch(1, b"x" * 500))
    pieces, size = partition.read(0, 10)
    assert len(pieces) == 2
    assert size > 10


def test_of_small_batches_the_newest_is_kept_and_of_large_ones_the_largest() -> None:
    partition = RememberedPartition()
    partition.append(batch(1, b"old"))
    partition.append(batch(1, b"new"))
    assert partition.batch.endswith(b"new")
    partition.append(batch(1, b"x" * 50_000))
    partition.append(batch(1, b"tail"))
    assert partition.batch.endswith(b"x")


def test_varints_are_decoded_again() -> None:
    for value in (0, 1, 127, 128, 16_383, 16_384, 2**31 - 1):
        encoded = unsigned_varint(value)
        assert read_unsigned_varint(memoryview(encoded + b"\xff"), 0) == (value, len(encoded))


def test_a_produce_request_is_decoded_without_copying_its_records() -> None:
    records = bytes(batch(1, b"payload"))
    partition = struct.pack(">i", 7) + unsigned_varint(len(records) + 1) + records + b"\x00"
    body = b"\x00" + struct.pack(">hi", -1, 1000) + b"\x02" + b"\x02t" + b"\x02" + partition + b"\x00" + b"\x00"
    frame = memoryview(b"head" + body)
    acks, found = batches(frame, 4)
    (only,) = found
    assert (acks, only.topic, only.partition, bytes(only.records)) == (-1, b"t", 7, records)
    assert only.records.obj is frame.obj
