"""Validate batches before they are appended: one from a producer, or those that a leader sent to a follower.

The common case reads the header once and the bytes once, for their CRC. Batches are only opened for topics that require it:
compacted ones, where every record needs a key, and those with a `compression.type` or LogAppendTime. That may take long, so it
is separate from the append: `prepare` does not use the log and may run in any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.protocol.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    CorruptBatch,
    crc_matches,
    iterate_headers,
    read_header,
    seal,
    with_log_append_time,
)
from catchment.protocol.compression import Compression, compress, decompressed
from catchment.protocol.errors import ApiError
from catchment.protocol.records import find_without_key
from catchment.storage.config import LogConfig
from catchment.storage.control_record import TransactionMarker, read_marker

_MAGIC_POSITION = 16
_LARGEST_CODEC = max(Compression)
MOST_UNCOMPRESSED_BYTES = 256 << 20
"""Bound of a batch's decompressed size, where the broker opens it."""
_MOST_RECORD_ERRORS = 1000
_LOW_ATTRIBUTES_POSITION = 22
CHEAP_TO_OPEN_BYTES = 8 * 1024
_CHEAP_TO_STAMP_BYTES = 1024 * 1024


class PreparedBatch(NamedTuple):
    """A batch in the form that the topic requires, valid while its configuration is the same."""

    data: memoryview
    header: BatchHeader
    config: LogConfig
    original: memoryview


def no_pause() -> None:
    """For callers that need no breaks in long work."""


def prepare(
    batch: memoryview,
    config: LogConfig,
    now_ms: int,
    pause: Callable[[], None] = no_pause,
    *,
    is_from_client: bool = True,
) -> PreparedBatch:
    """Check a batch and transform it as the topic requires, or raise ApiError."""
    header = check_batch(batch, config, now_ms, is_from_client=is_from_client)
    data, header = transform(batch, header, config, now_ms, pause)
    return PreparedBatch(data, header, config, batch)


def is_costly(batch: memoryview, config: LogConfig) -> bool:
    """Whether it may take long to prepare a batch for a topic that needs a transform."""
    size = batch.nbytes
    if not HEADER_SIZE <= size <= config.max_message_bytes:
        # It is rejected by its size.
        return False
    sent_codec = batch[_LOW_ATTRIBUTES_POSITION] & COMPRESSION_MASK
    if config.is_compacted or codec_of(config) not in (None, sent_codec):
        # A compressed batch may be much larger than its size.
        return size > CHEAP_TO_OPEN_BYTES or sent_codec != Compression.NONE
    return size > _CHEAP_TO_STAMP_BYTES


def check_batch(batch: memoryview, config: LogConfig, now_ms: int, *, is_from_client: bool) -> BatchHeader:
    """The header of a batch that may be appended; raises ApiError for any other."""
    size = batch.nbytes
    if size > _MAGIC_POSITION and batch[_MAGIC_POSITION] != MAGIC:
        raise _invalid("only record batches of magic version 2 are accepted")
    if size < HEADER_SIZE:
        raise _invalid("a produce request must hold one record batch for a partition")
    header = read_header(batch)
    if header.size != size:
        raise _invalid("a produce request may hold exactly one record batch for a partition")
    _check_size(size, config)
    if not crc_matches(batch, header):
        raise ApiError(ErrorCode.corrupt_message, "the CRC of the batch does not match its content")
    if header.record_count != header.last_offset_delta + 1 or header.record_count <= 0:
        raise _invalid(f"{header.record_count} records in a batch of {header.last_offset_delta + 1} offsets")
    if is_from_client:
        _check_client_batch(header, config, now_ms)
    return header


def _check_client_batch(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if header.base_offset != 0:
        raise _invalid(f"the base offset of a produced batch is 0, not {header.base_offset}")
    attributes = header.attributes
    if attributes & CONTROL_MASK:
        raise _invalid("clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"producer {header.producer_id} sent no sequence number")
    if header.compression > _LARGEST_CODEC:
        raise ApiError(ErrorCode.unsupported_compression_type, f"codec {header.compression} is not known")
    if attributes & TIMESTAMP_TYPE_MASK:
        raise ApiError(ErrorCode.invalid_timestamp, "producers may not set the timestamp type LogAppendTime")
    if config.is_log_append_time:
        return
    latest, earliest = header.max_timestamp_ms, header.base_timestamp_ms
    if latest - now_ms > config.message_timestamp_after_max_ms or (
        earliest != NO_TIMESTAMP and now_ms - earliest > config.message_timestamp_before_max_ms
    ):
        raise ApiError(
            ErrorCode.invalid_timestamp,
            f"timestamps from {earliest} to {latest} are out of the range that message.timestamp.before.max.ms and "
            f"message.timestamp.after.max.ms allow at {now_ms}",
        )


def needs_transform(config: LogConfig) -> bool:
    """Whether the topic's batches must be opened or changed."""
    return config.is_compacted or config.is_log_append_time or config.compression_type != "producer"


def transform(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, pause: Callable[[], None] = no_pause
) -> tuple[memoryview, BatchHeader]:
    """The batch as the topic requires it, with its header."""
    if header.is_control:
        return batch, header
    codec = codec_of(config)
    recompresses = codec is not None and codec != header.compression
    if config.is_compacted or recompresses:
        records = _open(batch, header, config, pause)
        if codec is not None and recompresses:
            batch = memoryview(recompress(records, header, codec, level_of(config, codec)))
            _check_size(batch.nbytes, config)
    if config.is_log_append_time:
        batch = memoryview(with_log_append_time(batch, now_ms))
    return batch, read_header(batch)


def codec_of(config: LogConfig) -> int | None:
    """The codec that the topic requires; None leaves it to producers."""
    if config.compression_type == "producer":
        return None
    if config.compression_type == "uncompressed":
        return Compression.NONE
    return Compression[config.compression_type.upper()]


def level_of(config: LogConfig, codec: int) -> int | None:
    """The level that the topic sets for a codec, None where the codec has none."""
    return {
        Compression.GZIP: config.compression_gzip_level,
        Compression.ZSTD: config.compression_zstd_level,
    }.get(Compression(codec))


def recompress(records: memoryview, header: BatchHeader, codec: int, level: int | None) -> bytearray:
    """The batch with the same records under another codec."""
    try:
        packed = compress(codec, records, level)
    except CorruptBatch as error:
        raise _invalid(str(error)) from error
    batch = bytearray(HEADER_SIZE) + packed
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LOG_OVERHEAD, attributes=attributes))
    seal(batch)
    return batch


def _open(batch: memoryview, header: BatchHeader, config: LogConfig, pause: Callable[[], None]) -> memoryview:
    """The records of a batch, decompressed and checked."""
    try:
        records = decompressed(header.compression, batch[HEADER_SIZE : header.size], MOST_UNCOMPRESSED_BYTES)
        without_key = find_without_key(records, header.record_count, _MOST_RECORD_ERRORS, pause)
    except CorruptBatch as error:
        raise _invalid(str(error)) from error
    if config.is_compacted and without_key:
        message = "Compacted topic cannot accept message without key."
        raise ApiError(
            ErrorCode.invalid_record,
            f"One or more records have been rejected: {len(without_key)} have no key, and the topic is compacted.",
            [(index, message) for index in without_key],
        )
    return records


def _check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.message_too_large,
            f"the batch has {size} bytes, max.message.bytes allows {config.max_message_bytes}",
        )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_record, message)


class FollowerBatch(NamedTuple):
    header: BatchHeader
    marker: TransactionMarker | None


def split_batches(data: memoryview, next_offset: int) -> tuple[memoryview, list[FollowerBatch]]:
    """The whole batches in `data`, which must be valid and continue from `next_offset`; a partial one at the end is dropped."""
    batches: list[FollowerBatch] = []
    end = 0
    try:
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size]
            if header.magic != MAGIC or not crc_matches(batch, header):
                raise CorruptBatch(f"the batch at offset {header.base_offset} is damaged")
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise ApiError(
                    ErrorCode.unknown_server_error,
                    f"the leader sent offset {header.base_offset}, but the log continues at {next_offset}",
                )
            batches.append(FollowerBatch(header, read_marker(batch) if header.is_control else None))
            next_offset = header.next_offset
            end = position + header.size
    except CorruptBatch as error:
        raise ApiError(ErrorCode.corrupt_message, str(error)) from error
    return data[:end], batches


def runs(data: memoryview, batches: list[FollowerBatch]) -> Iterator[tuple[memoryview, list[FollowerBatch]]]:
    """The batches that may be written at once: those without a marker together, and each marker by itself."""
    position = start = 0
    run: list[FollowerBatch] = []
    for batch in batches:
        if run and (batch.marker is not None or run[-1].marker is not None):
            yield data[start:position], run
            start, run = position, []
        run.append(batch)
        position += batch.header.size
    if run:
        yield data[start:position], run
