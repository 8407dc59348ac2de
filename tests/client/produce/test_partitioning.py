"""The partition of a key is the same as with Java's client."""

from __future__ import annotations

import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from catchment.client.produce.partitioning import NO_PARTITION, partition_of
from catchment.client.warming import warm

HASHES_OF_JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.fixture(scope="module", autouse=True)
def _compiled_loops() -> None:
    """Compile first, so that no example of a property waits for the compiler."""
    warm()


def test_hashes_are_java_s() -> None:
    # With this many partitions, the partition is the hash without its sign.
    chosen = partition_of(pa.array(HASHES_OF_JAVA), 1 << 31)
    assert chosen.tolist() == [value & 0x7FFFFFFF for value in HASHES_OF_JAVA.values()]


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 1000), st.integers(0, 5))
def test_partitions_equal_aiokafka_s_and_null_keys_have_none(
    keys: list[bytes | None], count: int, skipped: int
) -> None:
    chosen = partition_of(pa.array(keys, pa.binary()).slice(skipped), count)
    assert chosen.tolist() == [
        NO_PARTITION if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys[skipped:]
    ]


def test_text_is_hashed_as_its_utf_8_bytes() -> None:
    assert partition_of(pa.array(["é"]), 97) == partition_of(pa.array(["é".encode()]), 97)


def test_a_count_of_zero_partitions_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one partition, not 0"):
        partition_of(pa.array([b"k"]), 0)
