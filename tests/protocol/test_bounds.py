"""Every size that a frame can claim, one past its bound; and valid requests about very many partitions, which pass.

A row of the table names the decoder, what the bytes claim, the largest accepted size and one more.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from struct import pack
from typing import Any, Final

import pytest
from tests.protocol.messages import versions

from catchment.protocol import compression, fetch, produce
from catchment.protocol.apis import APIS, newest, request_class
from catchment.protocol.batch import CorruptBatch
from catchment.protocol.budget import (
    ARRAY_BYTES,
    MOST_COUNTED_BYTES,
    POINTER_BYTES,
    REQUEST_ALLOWANCE_BYTES,
    TAG_BYTES,
    request_memory,
)
from catchment.protocol.codec import decode_request, decode_response
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.guard import guarded
from catchment.protocol.headers import parse_request_header
from catchment.protocol.message_fields import MessageField, message_fields
from catchment.protocol.records import iterate_records
from catchment.protocol.wire import (
    LONGEST_STRING_BYTES,
    WireReader,
    read_unsigned_varint,
    read_varlong,
    unsigned_varint,
    varint,
)

Decode = Callable[[bytes], object]

UNPACKED_BYTES: Final = 1 << 20
FLEXIBLE_HEADER: Final = b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff"
FETCH_12: Final = pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1)


def compact(text: bytes) -> bytes:
    return unsigned_varint(len(text) + 1) + text


def names(size: int) -> bytes:
    """FindCoordinator 4 for one key of that size."""
    return b"\x00" + b"\x02" + compact(b"x" * size) + b"\x00"


def many_tags(count: int) -> bytes:
    """ApiVersions 3 with `count` unknown tagged fields of two bytes."""
    return b"\x02a\x02b" + unsigned_varint(count) + b"\x32\x00" * count


def numbers(count: int) -> bytes:
    """ListConfigResources 1 with `count` types."""
    return unsigned_varint(count + 1) + b"\x80" * count + b"\x00"


def padded(count: int) -> bytes:
    """The same in a message that is larger than the counted bytes, by a tagged field."""
    padding = b"\x01\x32" + unsigned_varint(MOST_COUNTED_BYTES) + bytes(MOST_COUNTED_BYTES)
    return unsigned_varint(count + 1) + b"\x80" * count + padding


def produced(count: int) -> bytes:
    """Produce 9 with `count` partitions without records."""
    return b"\x00" + pack(">hi", 1, 0) + b"\x02\x02a" + unsigned_varint(count + 1) + b"\x00" * 6 * count + b"\x00\x00"


def fetched(count: int) -> bytes:
    """Fetch 4 with `count` topics that have no name and no partitions."""
    return pack(">iiiib", -1, 0, 0, 0, 0) + pack(">i", count) + b"\x00" * 6 * count


def fetched_tags(count: int) -> bytes:
    return FETCH_12 + b"\x01\x01\x01" + unsigned_varint(count) + b"\x32\x00" * count


def zstd(window_log: int) -> bytes:
    block = (1 | 1 << 1 | 10 << 3).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x00" + bytes(((window_log - 10) << 3,)) + block + b"a"


def most(cost: int, size: int) -> int:
    """How many elements of a cost and a size the budget of a request allows."""
    return (REQUEST_ALLOWANCE_BYTES - ARRAY_BYTES) // (cost - 4 * size)


MOST_NUMBERS: Final = (request_memory(100 * MOST_COUNTED_BYTES) - TAG_BYTES) // (POINTER_BYTES + 32)


def unpack(codec: int) -> Decode:
    return lambda data: compression.decompress(codec, data, UNPACKED_BYTES)


def packed(codec: int, size: int) -> bytes:
    return compression.compress(codec, bytes(size))


def records(count: int) -> bytes:
    return (varint(6) + b"\x00\x00\x00\x01\x01\x00") * count


TABLE: Final[dict[str, tuple[Decode, bytes, bytes]]] = {
    "a varint, in bytes": (lambda data: read_unsigned_varint(data, 0), b"\x80\x80\x80\x80\x00", b"\x80" * 5 + b"\x00"),
    "a varint, in bits": (lambda data: read_unsigned_varint(data, 0), b"\xff" * 4 + b"\x0f", b"\xff" * 4 + b"\x10"),
    "a varlong, in bytes": (lambda data: read_varlong(data, 0), b"\x80" * 9 + b"\x00", b"\x80" * 10 + b"\x00"),
    "a varint by hand": (
        lambda data: WireReader(memoryview(data), 0, flexible=True).unsigned_varint(),
        b"\xff" * 4 + b"\x0f",
        b"\xff" * 4 + b"\x10",
    ),
    "a client id": (parse_request_header, bytes(8) + b"\x00\x02ab", bytes(8) + b"\x00\x03ab"),
    "tags of a header": (
        parse_request_header,
        FLEXIBLE_HEADER + unsigned_varint(1000) + b"\x01\x00" * 1000,
        FLEXIBLE_HEADER + unsigned_varint(1001) + b"\x01\x00" * 1001,
    ),
    "a tag of a header": (parse_request_header, FLEXIBLE_HEADER + b"\x01\x00\x01a", FLEXIBLE_HEADER + b"\x01\x00\x02a"),
    "a string": (
        lambda data: decode_request(10, 4, data),
        names(LONGEST_STRING_BYTES),
        names(LONGEST_STRING_BYTES + 1),
    ),
    "a string by hand": (
        lambda data: WireReader(memoryview(data), 0, flexible=True).string(),
        compact(b"x" * LONGEST_STRING_BYTES),
        compact(b"x" * (LONGEST_STRING_BYTES + 1)),
    ),
    "a legacy string": (lambda data: decode_request(10, 0, data), b"\x00\x02ab", b"\x00\x03ab"),
    "bytes of an element": (
        lambda data: decode_request(14, 4, data),
        b"\x02g" + bytes(4) + b"\x01\x00" + b"\x02\x02m\x03ab\x00" + b"\x00",
        b"\x02g" + bytes(4) + b"\x01\x00" + b"\x02\x02m\x7fab\x00" + b"\x00",
    ),
    "an array by its bytes": (lambda data: decode_request(74, 1, data), b"\x03ab\x00", b"\x05ab\x00"),
    "an array by its memory": (
        lambda data: decode_request(74, 1, data),
        numbers(most(POINTER_BYTES + 32, 1) - 500),
        numbers(most(POINTER_BYTES + 32, 1) + 500),
    ),
    "an array by its memory, in a huge message": (
        lambda data: decode_request(74, 1, data),
        padded(MOST_NUMBERS - 500),
        padded(MOST_NUMBERS + 500),
    ),
    "unknown tagged fields": (
        lambda data: decode_request(18, 3, data),
        many_tags(most(TAG_BYTES, 2) - 500),
        many_tags(most(TAG_BYTES, 2) + 500),
    ),
    "a known tagged field": (
        lambda data: decode_response(18, 4, data),
        b"\x00\x00\x01\x00\x00\x00\x00" + b"\x01\x01\x08" + bytes(8),
        b"\x00\x00\x01\x00\x00\x00\x00" + b"\x01\x01\x09" + bytes(8),
    ),
    "partitions of Produce": (
        lambda data: produce.decode_request(memoryview(data), 0, 9),
        produced(most(768, 6) - 500),
        produced(most(768, 6) + 500),
    ),
    "topics of Fetch": (
        lambda data: fetch.decode_request(memoryview(data), 0, 4),
        fetched(most(256, 6) - 500),
        fetched(most(256, 6) + 500),
    ),
    "unknown tagged fields of Fetch": (
        lambda data: fetch.decode_request(memoryview(data), 0, 12),
        fetched_tags(most(TAG_BYTES, 2) - 500),
        fetched_tags(most(TAG_BYTES, 2) + 500),
    ),
    "records of a batch": (
        lambda data: list(iterate_records(data[1:], data[0])),
        b"\x03" + records(3),
        b"\x04" + records(3),
    ),
    "headers of a record": (
        lambda data: list(iterate_records(data, 1)),
        varint(8) + b"\x00\x00\x00\x01\x01" + varint(1) + b"\x00\x01",
        varint(8) + b"\x00\x00\x00\x01\x01" + varint(2) + b"\x00\x01",
    ),
    "gzip, unpacked": (unpack(1), packed(1, UNPACKED_BYTES), packed(1, UNPACKED_BYTES + 1)),
    "snappy, unpacked": (unpack(2), packed(2, UNPACKED_BYTES), packed(2, UNPACKED_BYTES + 1)),
    "lz4, unpacked": (unpack(3), packed(3, UNPACKED_BYTES), packed(3, UNPACKED_BYTES + 1)),
    "zstd, unpacked": (unpack(4), packed(4, UNPACKED_BYTES), packed(4, UNPACKED_BYTES + 1)),
    "the window of zstd": (unpack(4), zstd(27), zstd(28)),
}


@pytest.mark.parametrize(("decode", "largest", "one_past"), TABLE.values(), ids=TABLE.keys())
def test_a_size_is_accepted_up_to_its_bound_and_not_one_past_it(
    decode: Decode, largest: bytes, one_past: bytes
) -> None:
    decode(largest)
    with pytest.raises((MalformedRequest, CorruptBatch)):
        decode(one_past)


@pytest.mark.parametrize(
    ("decode", "wire"),
    [
        pytest.param(lambda data: decode_request(18, 3, data), many_tags(200_000), id="200,000 tags"),
        pytest.param(lambda data: produce.decode_request(memoryview(data), 0, 9), produced(100_000), id="Produce"),
        pytest.param(lambda data: fetch.decode_request(memoryview(data), 0, 4), fetched(100_000), id="Fetch"),
        pytest.param(unpack(4), packed(4, 32 << 20), id="32 MiB of zstd"),
        pytest.param(unpack(1), packed(1, 16 << 20), id="16 MiB of gzip"),
    ],
)
def test_a_rejected_message_has_not_allocated_what_it_claims(decode: Decode, wire: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((MalformedRequest, CorruptBatch)):
            decode(wire)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < (4 << 20) + 4 * len(wire)


FIXED_VALUES: Final = {
    "bool": b"\x00",
    "int8": b"\x80",
    "int16": b"\x7f\xff",
    "uint16": b"\x7f\xff",
    "int32": b"\x00\x00\x7f\xff",
    "int64": b"\x00\x00\x01\x7f\xff\xff\xff\xff",
    "float64": bytes(8),
    "uuid": b"\x01" * 16,
    "error_code": bytes(2),
    "timedelta_i32": b"\x00\x00\x7f\xff",
    "timedelta_i64": b"\x00\x00\x00\x00\x00\x00\x7f\xff",
    "datetime_i64": b"\x00\x00\x01\x7f\xff\xff\xff\xff",
}


def entity(entity_class: Any, counts: dict[str, int]) -> bytes:
    """A message whose arrays have as many elements as `counts` says by their names; all others are empty."""
    flexible: bool = entity_class.__flexible__
    plain = [one for one in message_fields(entity_class) if one.tag is None]
    return b"".join([_value(one, flexible, counts) for one in plain]) + b"\x00" * flexible


def _value(one: MessageField, flexible: bool, counts: dict[str, int]) -> bytes:
    if one.is_single_struct:
        return b"\xff" if one.is_nullable else entity(one.struct, counts)
    count = counts.get(one.name, 0)
    item = _primitive(one, flexible) if one.struct is None else entity(one.struct, counts)
    if not one.is_array:
        return item
    return (unsigned_varint(count + 1) if flexible else pack(">i", count)) + item * count


def _primitive(one: MessageField, flexible: bool) -> bytes:
    kafka_type = one.kafka_type
    if kafka_type in FIXED_VALUES:
        return FIXED_VALUES[kafka_type]
    text = b"orders-of-region-1" if "name" in one.name or "key" in one.name else b""
    if flexible:
        return compact(text)
    return len(text).to_bytes(2 if kafka_type == "string" else 4) + text


LARGE_REQUESTS: Final[dict[int, dict[str, int]]] = {
    2: {"topics": 500, "partitions": 100},
    3: {"topics": 30_000},
    8: {"topics": 500, "partitions": 100},
    9: {"groups": 1, "topics": 5_000, "partition_indexes": 10},
    19: {"topics": 10_000, "configs": 1},
    20: {"topics": 20_000, "topic_names": 20_000},
    21: {"topics": 500, "partitions": 100},
    23: {"topics": 500, "partitions": 100},
    24: {"transactions": 1, "topics": 5_000, "v3_and_below_topics": 5_000, "partitions": 10},
    28: {"topics": 500, "partitions": 100},
    32: {"resources": 20_000},
    44: {"resources": 10_000, "configs": 2},
}


@pytest.mark.parametrize("api_key", LARGE_REQUESTS, ids=lambda key: APIS[key].name)
def test_a_valid_request_about_very_many_partitions_passes(api_key: int) -> None:
    for version in versions(api_key):
        message_class = request_class(api_key, version)
        wire = entity(message_class, LARGE_REQUESTS[api_key])
        is_lifted = version != newest(api_key)
        assert guarded(message_class, wire, request_memory(len(wire)), is_lifted=is_lifted) == wire


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_a_fetch_of_50_000_partitions_passes(version: int) -> None:
    wire = entity(request_class(fetch.API_KEY, version), {"topics": 500, "partitions": 100})
    request = fetch.decode_request(memoryview(wire), 0, version)
    assert sum(len(topic.partitions) for topic in request.topics) == 50_000


def test_a_response_about_200_000_partitions_passes() -> None:
    counts = {"topics": 200, "partitions": 1000, "replica_nodes": 3, "isr_nodes": 3}
    wire = b"\x00" * 4 + b"\x01\x00" + bytes(4) + unsigned_varint(201)
    topic = b"\x00\x00" + compact(b"orders") + b"\x01" * 16 + b"\x00" + unsigned_varint(1001)
    partition = b"\x00\x00" + bytes(12) + (b"\x04" + bytes(12)) * 2 + b"\x01" + b"\x00"
    wire += (topic + partition * counts["partitions"] + bytes(4) + b"\x00") * counts["topics"] + b"\x00\x00" + b"\x00"
    response = decode_response(3, 13, wire)
    assert sum(len(each.partitions) for each in response.topics) == 200_000
