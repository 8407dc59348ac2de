"""Spark partitions from ranges of offsets: the same for the same ranges and options, however often a batch is planned.

The sink relies on that when a batch is repeated. A topic's partition is split only if an option asks for it, by the same
sums as in Spark's own source.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition


class OffsetRange(NamedTuple):
    """Offsets of one partition, from `start` up to but not including `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)

    def split(self, count: int) -> list[OffsetRange]:
        """Parts of nearly the same size, in order."""
        cuts = [self.start + self.size * number // count for number in range(count + 1)]
        return [self._replace(start=start, end=end) for start, end in pairwise(cuts)]


class BatchFacts(NamedTuple):
    """What Spark has noted of a batch before it runs."""

    batch_id: int | None
    watermark_ms: int | None
    time_ms: int | None


UNKNOWN_FACTS: Final = BatchFacts(None, None, None)


class RangePartition(InputPartition):
    """What one task reads, and the facts of its batch if the query asks for them."""

    def __init__(self, offsets: OffsetRange, facts: BatchFacts) -> None:
        super().__init__((tuple(offsets), tuple(facts)))

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(*self.value[0])

    @property
    def facts(self) -> BatchFacts:
        return BatchFacts(*self.value[1])


def plan(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    facts: BatchFacts = UNKNOWN_FACTS,
) -> list[RangePartition]:
    """A task for each range that is not empty, or several where an option asks for it."""
    wanted = [one for one in sorted(ranges) if one.size]
    if max_records is not None:
        wanted = [part for one in wanted for part in one.split(-(-one.size // max_records))]
    if min_partitions is not None and len(wanted) < min_partitions:
        wanted = _split_large(wanted, min_partitions)
    return [RangePartition(one, facts) for one in wanted]


def _split_large(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Large ranges get their share of the partitions that small ones, which stay whole, leave over."""
    total = sum(one.size for one in ranges)
    whole = [one for one in ranges if _share(one, total, min_partitions) == 1]
    large_total = total - sum(one.size for one in whole)
    large_partitions = max(min_partitions - len(whole), 1)
    counts = {one: 1 if one in whole else _share(one, large_total, large_partitions) for one in ranges}
    return [part for one in ranges for part in one.split(counts[one]) if part.size]


def _share(one: OffsetRange, total: int, partitions: int) -> int:
    return max(1, int(one.size / total * partitions + 0.5))
