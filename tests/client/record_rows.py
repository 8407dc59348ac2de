"""Random batches, and their rows according to the protocol's record reader, for comparison with decoding."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import strategies as st

from catchment.protocol.batch import iterate_headers
from catchment.protocol.compression import Compression
from catchment.protocol.records import Record, encode_batch, read_records

TOPIC: Final = "orders"
PARTITION: Final = 3
LIMIT_BYTES: Final = 1 << 24
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

nullable_bytes = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=200)
headers = st.lists(st.tuples(st.text(max_size=8), nullable_bytes), max_size=3).map(tuple)
_Contents = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, int]
contents = st.tuples(
    nullable_bytes, nullable_bytes, headers, st.integers(1, 300), st.integers(-100_000, 10_000_000_000)
)


def _batch(
    rows: list[_Contents], base_offset: int, compression: Compression, is_log_append_time: bool, gap_behind: int
) -> bytes:
    records = []
    delta = -1
    for key, value, its_headers, step, timestamp_delta_ms in rows:
        delta += step
        records.append(Record(key, value, its_headers, delta, timestamp_delta_ms))
    return encode_batch(
        records,
        base_offset=base_offset,
        base_timestamp_ms=1_700_000_000_000,
        last_offset_delta=max(delta, 0) + gap_behind,
        compression=compression,
        is_log_append_time=is_log_append_time,
    )


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A few consecutive batches, with the gaps that compaction leaves in and between them."""
    data = b""
    next_offset = draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(0, 4))):
        rows = draw(st.lists(contents, max_size=6))
        codec = draw(st.sampled_from(Compression))
        batch = _batch(rows, next_offset, codec, draw(st.booleans()), draw(st.integers(0, 5)))
        data += batch
        next_offset = next_offset_of(batch, 0) + draw(st.integers(0, 5))
    return data


def expected_rows(data: bytes) -> list[dict[str, Any]]:
    """Every row of some batches, control batches included, with all columns."""
    rows = []
    for position, header in iterate_headers(data):
        if not header.record_count:
            continue
        for record in read_records(data[position : position + header.size], LIMIT_BYTES):
            timestamp_ms = header.base_timestamp_ms + record.timestamp_delta_ms
            if header.is_log_append_time:
                timestamp_ms = header.max_timestamp_ms
            rows.append(
                {
                    "key": record.key,
                    "value": record.value,
                    "topic": TOPIC,
                    "partition": PARTITION,
                    "offset": header.base_offset + record.offset_delta,
                    "timestamp": _EPOCH + timedelta(milliseconds=timestamp_ms),
                    "timestampType": int(header.is_log_append_time),
                    "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
                }
            )
    return rows


def next_offset_of(data: bytes, default: int) -> int:
    """The offset after the last batch."""
    return max([default, *(header.next_offset for _, header in iterate_headers(data))])
