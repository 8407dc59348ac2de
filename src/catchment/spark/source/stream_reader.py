"""A streaming query's view of topics: where it begins, how far the next batch goes, and what its tasks read.

Spark makes such a reader in two processes: the one that plans the batches of a run, where it lives as long as the run, and one
where it is only pickled for the tasks. So nothing is opened before Spark asks for something.

Spark writes down where batches end, but not where the first began. If that was the end of a topic at some moment, a batch that
is repeated after a crash would begin later than it did. So such a query starts with an empty batch, which writes its start down.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from typing_extensions import override

from catchment.spark.source.noted_offsets import NotedOffsets
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.planning import RangePartition, plan
from catchment.spark.source.positions import from_json, to_json
from catchment.spark.source.record_reading import RecordReading
from catchment.spark.source.stream_run import StreamRun

_ANY_NUMBER: Final = 2**62


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark calls; what is remembered from one call to the next is in its `StreamRun`."""

    def __init__(self, options: SourceOptions, reading: RecordReading, notices_address: str | None) -> None:
        self._options = options
        self._reading = reading
        self._notices_address = notices_address
        self._started: StreamRun | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get what they read with, and nothing of the run."""
        return vars(self) | {"_started": None}

    @override
    def initialOffset(self) -> dict[str, Any]:
        """Asked more than once, and always answered the same."""
        start = self._run.initial()
        return to_json(NotedOffsets(start, topics=self._run.initial_topics).together())

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        """What comes back with `latestOffset`, unless the query is to take all at once whatever the options say."""
        return ReadMaxRows(_ANY_NUMBER)

    @override
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = NotedOffsets.of(from_json(start))
        end = self._run.next_end(begin, is_limited=not isinstance(limit, ReadAllAvailable))
        topics = self._run.topics_of(end)
        # What is noted changes with what is read, and by itself makes no batch.
        is_same = end == begin.read and begin.among(topics) == begin.read
        noted = begin.noted if is_same and begin.noted else self._run.noted()
        runs = begin.runs + self._run.begins_now()
        return to_json(NotedOffsets(end, noted, begin.topics if is_same else topics, runs).together())

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._run.stop_at_latest()

    @override
    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self._run.available)

    @override
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """Deterministic: nothing but the offsets, the options and the times of the batch, which Spark has noted, decides."""
        ending = NotedOffsets.of(from_json(end))
        starts = NotedOffsets.of(from_json(start)).among(ending.topics)
        options = self._options
        self._run.planned(ending.read)
        ranges = [self._run.range_between(place, starts, ending.read) for place in ending.read]
        return plan(
            ranges,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
            facts=self._run.facts(),
        )

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.read(partition)

    @override
    def commit(self, end: dict[str, Any]) -> None:
        self._run.finished(NotedOffsets.of(from_json(end)).read)

    @override
    def stop(self) -> None:
        if self._started is not None:
            self._started.close()

    @property
    def _run(self) -> StreamRun:
        if self._started is None:
            self._started = StreamRun(self._options, self._notices_address)
        return self._started
