"""What a producer may append: one sound version-2 batch within the topic's limits.

The common case reads the header once and the bytes once, for their CRC. Only topics that ask for it look inside a batch:
compacted ones, where every record needs a key, and those with a codec or a clock of their own.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.protocol.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    CorruptBatch,
    crc_matches,
    read_header,
    with_log_append_time,
)
from catchment.protocol.compression import Compression
from catchment.protocol.errors import ApiError
from catchment.protocol.records import encode_batch, read_records
from catchment.storage.config import LogConfig

_MAGIC_POSITION = 16
_LARGEST_CODEC = max(Compression)
MOST_UNCOMPRESSED_BYTES = 256 << 20
"""How far a batch may unpack when a topic makes the broker look inside."""


def check_batch(batch: memoryview, config: LogConfig, now_ms: int, *, is_from_client: bool) -> BatchHeader:
    """The header of a batch that may be appended, or ApiError."""
    size = batch.nbytes
    if size > _MAGIC_POSITION and batch[_MAGIC_POSITION] != MAGIC:
        raise _invalid("only record batches of magic version 2 are accepted")
    if size < HEADER_SIZE:
        raise _invalid("a produce request must hold one record batch for a partition")
    header = read_header(batch)
    if header.size != size:
        raise _invalid("a produce request may hold exactly one record batch for a partition")
    if size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.message_too_large,
            f"the batch has {size} bytes, max.message.bytes allows {config.max_message_bytes}",
        )
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
    """Whether the topic wants its batches looked into or changed."""
    return config.is_compacted or config.is_log_append_time or config.compression_type != "producer"


def transform(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> tuple[memoryview, BatchHeader]:
    """The batch as the topic wants it, with its header."""
    if header.is_control:
        return batch, header
    if config.is_compacted:
        _check_keys(batch)
    codec = codec_of(config)
    if codec is not None and codec != header.compression:
        batch = memoryview(recompress(batch, header, codec, level_of(config, codec)))
    if config.is_log_append_time:
        batch = memoryview(with_log_append_time(batch, now_ms))
    return batch, read_header(batch)


def codec_of(config: LogConfig) -> int | None:
    """The codec that the topic prescribes; None leaves it to producers."""
    if config.compression_type == "producer":
        return None
    if config.compression_type == "uncompressed":
        return Compression.NONE
    return Compression[config.compression_type.upper()]


def level_of(config: LogConfig, codec: int) -> int | None:
    """The level that the topic prescribes for a codec, None where the codec has none."""
    return {
        Compression.GZIP: config.compression_gzip_level,
        Compression.ZSTD: config.compression_zstd_level,
    }.get(Compression(codec))


def recompress(batch: memoryview, header: BatchHeader, codec: int, level: int | None) -> bytes:
    try:
        records = list(read_records(batch, MOST_UNCOMPRESSED_BYTES))
    except CorruptBatch as error:
        raise _invalid(str(error)) from error
    return encode_batch(
        records,
        base_offset=header.base_offset,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        compression=codec,
        compression_level=level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_log_append_time=header.is_log_append_time,
        is_transactional=header.is_transactional,
    )


def _check_keys(batch: memoryview) -> None:
    try:
        for record in read_records(batch, MOST_UNCOMPRESSED_BYTES):
            if record.key is None:
                raise _invalid("a compacted topic cannot accept a record without a key")
    except CorruptBatch as error:
        raise _invalid(str(error)) from error


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_record, message)
