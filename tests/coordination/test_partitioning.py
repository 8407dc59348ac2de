"""A group is in the partition where Kafka looks for it: by Java's `String.hashCode`, over UTF-16."""

import tracemalloc

import pytest

from catchment.coordination import partitioning
from catchment.coordination.partitioning import partition_for


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [("", 0), ("test", 3556498), ("abc", 96354), ("zzzzzz", -685785664), ("\U0001d11e", 1772394)],
)
def test_the_partition_is_the_absolute_hash_modulo_the_count(key: str, java_hash: int) -> None:
    for count in (1, 7, 50):
        assert partition_for(key, count) == abs(java_hash) % count


def test_the_smallest_integer_counts_as_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.parametrize("letter", ["x", "é", "\uffff", "\U0001d11e"])
@pytest.mark.parametrize("length", [255, 256, 257, 511, 513, 32_767])
def test_a_long_key_hashes_like_a_loop_over_its_characters(letter: str, length: int) -> None:
    key = "a" + letter * length
    units = key.encode("utf-16-be")
    hashed = 0
    for start in range(0, len(units), 2):
        hashed = (hashed * 31 + int.from_bytes(units[start : start + 2])) % 2**32
    assert partition_for(key, 50) == abs(hashed - 2**32 if hashed >= 2**31 else hashed) % 50


def test_hashing_a_key_of_any_length_retains_no_memory() -> None:
    key = "x" * (1 << 20)
    tracemalloc.start()
    try:
        partition_for(key, 50)
        _, peak_bytes = tracemalloc.get_traced_memory()
        # Other threads of this process allocate as well.
        kept = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, partitioning.__file__)])
    finally:
        tracemalloc.stop()
    assert sum(trace.size for trace in kept.traces) < 10_000
    assert peak_bytes < 2 * len(key)
