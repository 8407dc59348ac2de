"""The compiled loops: compiled once for every kind of input, and also without a cache."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from catchment.client.columns import decode_kernels, encode_kernels
from catchment.client.columns.decoding import decode
from catchment.client.columns.encoding import encode
from catchment.client.columns.memory import compiled
from catchment.client.columns.schema import ALL_COLUMNS
from catchment.client.produce.partitioning import partition_of
from catchment.client.warming import warm

LOOPS = (
    decode_kernels.decode_records,
    decode_kernels.count_headers,
    decode_kernels.decode_headers,
    encode_kernels.encode_records,
    encode_kernels.encode_headers,
    encode_kernels.choose_partitions,
)


def test_after_warming_no_kind_of_input_makes_the_compiler_run() -> None:
    warm()
    inputs = [
        pa.table({"value": ["a", None], "key": pa.array([b"k", None], pa.large_binary())}),
        pa.record_batch({"value": pa.array([None, None])}),
        pa.record_batch({"value": [b"a", b"b"], "timestamp": pa.array([1, None])}),
        pa.record_batch({"value": [b"a" * 1000], "headers": [[{"key": "h", "value": b"x"}]]}),
    ]
    for rows in inputs:
        for codec in ("none", "zstd"):
            (batch,) = encode(rows, codec=codec, timestamp_ms=0, base_sequence=5)
            for data in (batch.data, memoryview(bytearray(batch.data))):
                decode(data, ALL_COLUMNS, topic="t", partition=0, start_offset=0)
                decode(data, ["value"], topic="t", partition=0, start_offset=1, end_offset=1)
    decode(b"", ALL_COLUMNS, topic="t", partition=0, start_offset=0)
    partition_of(pa.array([None, "k"]), 3)
    assert [len(cast("Any", loop).signatures) for loop in LOOPS] == [1] * len(LOOPS)


def test_functions_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(number: int) -> int:
        return 2 * number

    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    assert compiled(doubled)(21) == 42
