"""The codecs compared with aiokafka's, and bytes that unpack to too much."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import aiokafka.codec
import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.protocol.batch import CorruptBatch
from catchment.protocol.compression import Compression, compress, decompress, decompress_into

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
THEIRS: dict[int, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    Compression.GZIP: (aiokafka.codec.gzip_encode, aiokafka.codec.gzip_decode),
    Compression.SNAPPY: (aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
    Compression.LZ4: (aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
    Compression.ZSTD: (aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
}
SAMPLES = [b"a", b"catchment" * 30_000, os.urandom(200_000), bytes(64 * 1024), bytes(64 * 1024 + 1)]


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_what_we_compress_and_the_other_way_round(codec: Compression) -> None:
    encode, decode = THEIRS[codec]
    for sample in SAMPLES:
        assert bytes(decode(compress(codec, sample))) == sample
        assert decompress(codec, memoryview(encode(sample)), len(sample)) == sample


@given(st.sampled_from(list(Compression)), st.binary(max_size=3000))
def test_decompression_is_the_inverse_of_compression(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


def test_snappy_without_framing_is_read_too() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"bare" * 100)), 400) == b"bare" * 100


def test_lz4_frames_have_independent_blocks_because_kafka_reads_no_others() -> None:
    flags = compress(Compression.LZ4, b"x" * 200_000)[4]
    assert flags & 0b0010_0000


@pytest.mark.parametrize("codec", list(Compression))
def test_one_byte_more_than_the_limit_is_rejected(codec: Compression) -> None:
    packed = compress(codec, bytes(1_000_000))
    assert len(decompress(codec, packed, 1_000_000)) == 1_000_000
    with pytest.raises(CorruptBatch):
        decompress(codec, packed, 999_999)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_buffer_is_filled_to_its_last_byte_and_one_byte_less_is_too_small(codec: Compression) -> None:
    data = bytes(range(250)) * 400
    packed = compress(codec, data)
    target = memoryview(bytearray(len(data)))
    assert decompress_into(codec, packed, target) == len(data)
    assert target == data
    assert decompress_into(codec, packed, target[1:]) is None


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_data_is_corrupt(codec: Compression) -> None:
    packed = compress(codec, os.urandom(500) + bytes(500))
    for size in (0, 5, len(packed) // 2, len(packed) - 5):
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:size], 10_000)


@given(st.sampled_from(CODECS), st.binary(max_size=100))
def test_random_bytes_are_corrupt_or_within_the_limit(codec: Compression, data: bytes) -> None:
    try:
        plain = decompress(codec, data, 5_000)
    except CorruptBatch:
        return
    assert len(plain) <= 5_000


@pytest.mark.parametrize("block", [b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00"])
def test_a_snappy_block_with_a_wrong_length_is_corrupt(block: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"x")[:16] + block, 100)


def test_an_unknown_codec_is_rejected() -> None:
    with pytest.raises(CorruptBatch):
        decompress(5, b"", 100)
    with pytest.raises(ValueError, match="codec 5"):
        compress(5, b"")


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_a_higher_level_compresses_better_and_unpacks_to_the_same(codec: Compression) -> None:
    random = Random(5)
    words = [b"harbour", b"river", b"flood", b"crew", b"bridge", b"quake"]
    data = b" ".join(random.choice(words) + b"%d" % random.randrange(500) for _ in range(20_000))
    low, high = (compress(codec, data, level) for level in (1, 9))
    assert len(high) < len(low)
    assert decompress(codec, low, 1 << 20) == decompress(codec, high, 1 << 20) == data
