"""The four codecs of record batches, with a bound on the unpacked size.

Kafka wraps snappy in the blocks of the xerial library, which no Python library does; some clients send it without. Both are
read, the first is written. Kafka's lz4 reader requires independent blocks. cramjam writes these only with a checksum of each
block, which costs time for writer and reader, so the frame is written here.
"""

from __future__ import annotations

from enum import IntEnum
from mmap import mmap
from struct import Struct, error
from typing import Final

import cramjam

from catchment.protocol.batch import CorruptBatch
from catchment.protocol.errors import is_native_panic


class Compression(IntEnum):
    """The codec ids in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS: Final = Struct(">ii").pack(1, 1)
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_XERIAL_LENGTH: Final = Struct(">i")

_LZ4_BLOCK_SIZE: Final = 64 * 1024
# Magic, version 1 with independent blocks, blocks of 64 KiB, and the checksum of the two bytes before it.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_LENGTH: Final = Struct("<I")
_LZ4_STORED: Final = 0x80000000
_LZ4_END: Final = bytes(4)

_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3
_SMALLEST_GUESS_BYTES: Final = 64 * 1024
_LARGEST_GUESS_BYTES: Final = 1024 * 1024
_BUFFER_TOO_SMALL: Final = "failed to write whole buffer"


def compress(codec: int, data: memoryview | bytes, level: int | None = None) -> bytes:
    """Compress the records of a batch as Kafka's own clients do, at their default levels unless one is given.

    Level -1 is gzip's default, as in Kafka. Snappy and lz4 have no levels here.
    """
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL if level in (None, -1) else level))
        case Compression.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Compression.LZ4:
            return _compress_lz4(memoryview(data))
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    raise ValueError(f"there is no compression codec {codec}")


def decompress(codec: int, data: memoryview | bytes, limit_bytes: int) -> bytes:
    """The records of a batch. Raises CorruptBatch if they are corrupt or exceed `limit_bytes`."""
    return bytes(decompressed(codec, data, limit_bytes))


def decompressed(codec: int, data: memoryview | bytes, limit_bytes: int) -> memoryview:
    """The same without a copy: the data itself, or a view of the buffer that it was unpacked to.

    No step holds the interpreter's lock for long, so that other threads can run while a large batch is unpacked.
    """
    if codec == Compression.NONE and len(data) <= limit_bytes:
        return memoryview(data)
    # No codec reliably states the unpacked size.
    guess_bytes = min(max(4 * len(data), _SMALLEST_GUESS_BYTES), limit_bytes)
    if guess_bytes <= _LARGEST_GUESS_BYTES:
        output = memoryview(bytearray(guess_bytes))
        size = decompress_into(codec, data, output)
        if size is not None:
            return output[:size]
        if guess_bytes == limit_bytes:
            raise CorruptBatch(f"records of more than {limit_bytes} bytes")
    # Pages of a mapping are allocated when they are written: a large limit costs only what is used.
    output = memoryview(mmap(-1, limit_bytes))
    size = decompress_into(codec, data, output)
    if size is None:
        raise CorruptBatch(f"records of more than {limit_bytes} bytes")
    return output[:size]


def decompress_into(codec: int, data: memoryview | bytes, target: memoryview) -> int | None:
    """Unpack the records of a batch. Returns their size, or None if they do not fit. Raises CorruptBatch."""
    try:
        match codec:
            case Compression.NONE:
                return _copy(data, target)
            case Compression.GZIP:
                return int(cramjam.gzip.decompress_into(data, target))
            case Compression.SNAPPY:
                return _decompress_snappy(memoryview(data), target)
            case Compression.LZ4:
                return int(cramjam.lz4.decompress_into(data, target))
            case Compression.ZSTD:
                return int(cramjam.zstd.decompress_into(data, target))
    except (cramjam.DecompressionError, error) as cause:
        if str(cause) == _BUFFER_TOO_SMALL:
            return None
        raise CorruptBatch(f"records do not decompress: {cause}") from cause
    except BaseException as cause:
        if is_native_panic(cause):
            raise CorruptBatch(f"records do not decompress: {cause}") from cause
        raise
    raise CorruptBatch(f"there is no compression codec {codec}")


def _copy(data: memoryview | bytes, target: memoryview) -> int | None:
    if len(data) > len(target):
        return None
    target[: len(data)] = data
    return len(data)


def _compress_snappy(data: memoryview) -> bytes:
    pieces = [_XERIAL_MAGIC, _XERIAL_VERSIONS]
    for start in range(0, len(data), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_SIZE]))
        pieces += (_XERIAL_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: memoryview, target: memoryview) -> int | None:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, target)
    used = 0
    position = len(_XERIAL_MAGIC) + len(_XERIAL_VERSIONS)
    while position < len(data):
        (length,) = _XERIAL_LENGTH.unpack_from(data, position)
        position += _XERIAL_LENGTH.size
        if not 0 < length <= len(data) - position:
            raise CorruptBatch(f"a snappy block claims {length} bytes")
        size = _decompress_snappy_block(data[position : position + length], target[used:])
        if size is None:
            return None
        used += size
        position += length
    return used


def _decompress_snappy_block(block: memoryview, target: memoryview) -> int | None:
    if cramjam.snappy.decompress_raw_len(block) > len(target):
        return None
    return int(cramjam.snappy.decompress_raw_into(block, target))


def _compress_lz4(data: memoryview) -> bytes:
    pieces = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_SIZE):
        plain = data[start : start + _LZ4_BLOCK_SIZE]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            pieces += (_LZ4_LENGTH.pack(len(block)), block)
        else:
            pieces += (_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), bytes(plain))
    pieces.append(_LZ4_END)
    return b"".join(pieces)
