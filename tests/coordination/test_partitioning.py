"""A group belongs where Kafka would look for it: by the rule of `String.hashCode`, over UTF-16."""

import pytest

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
