"""Filters of a batch query that cut what is read: on topic, partition, offset and timestamp.

They only narrow the ranges. Spark evaluates every filter again, so a range may be too wide, but never too narrow. Of time only
a lower bound helps: records are not in the order of their timestamps, so no record after the first late one can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from catchment.client.cluster import Cluster
from catchment.client.offsets import NOT_FOUND
from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.planning import OffsetRange

_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Narrowing:
    """What filters leave to be read."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = _LARGEST
    first_time_ms: int | None = None

    def with_filter(self, one: Filter) -> Narrowing:
        """What this and one more filter leave; filters on other columns are ignored."""
        column = ".".join(getattr(one, "attribute", ()))
        match one:
            case EqualTo(value=value) if value is not None:
                return self._among(column, [value])._from(column, value)._up_to(column, value)
            case In(value=values):
                return self._among(column, [value for value in values if value is not None])
            case GreaterThan(value=value) | GreaterThanOrEqual(value=value) if value is not None:
                is_open = isinstance(one, GreaterThan) and column == "offset"
                return self._from(column, value + 1 if is_open else value)
            case LessThan(value=value) | LessThanOrEqual(value=value) if value is not None:
                is_open = isinstance(one, LessThan) and column == "offset"
                return self._up_to(column, value - 1 if is_open else value)
        return self

    def keeps(self, place: TopicPartition) -> bool:
        topic, partition = place
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def narrow(self, cluster: Cluster, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The ranges cut to what is left; which offsets belong to a time is asked for all of them at once."""
        cut = [
            one._replace(start=max(one.start, self.first_offset), end=min(one.end, self.end_offset)) for one in ranges
        ]
        if self.first_time_ms is None:
            return cut
        found = cluster.list_offsets([one[:2] for one in cut], self.first_time_ms)
        return [one._replace(start=max(one.start, _first(found[one[:2]].offset, one.end))) for one in cut]

    def _among(self, column: str, values: Iterable[Any]) -> Narrowing:
        if column == "topic":
            return replace(self, topics=frozenset(values) & (self.topics or frozenset(values)))
        if column == "partition":
            return replace(self, partitions=frozenset(values) & (self.partitions or frozenset(values)))
        return self

    def _from(self, column: str, value: Any) -> Narrowing:
        if column == "offset":
            return replace(self, first_offset=max(self.first_offset, value))
        if column == "timestamp" and isinstance(value, datetime):
            time_ms = int(value.timestamp() * 1000)
            # A time below zero means something else to brokers, such as the end of a partition.
            return self if time_ms < 0 else replace(self, first_time_ms=max(time_ms, self.first_time_ms or time_ms))
        return self

    def _up_to(self, column: str, value: Any) -> Narrowing:
        return replace(self, end_offset=min(self.end_offset, value + 1)) if column == "offset" else self


def _first(found: int, end: int) -> int:
    """Where nothing is as late as asked for, nothing is read."""
    return end if found == NOT_FOUND else found
