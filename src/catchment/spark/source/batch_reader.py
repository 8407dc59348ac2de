"""A batch query's view of topics: planned once, from where they stand when it is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from catchment.client.cluster import Cluster
from catchment.client.offsets import LATEST
from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.data_loss import data_lost
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.planning import OffsetRange, RangePartition, plan
from catchment.spark.source.positions import AtOffsets, Offsets
from catchment.spark.source.pushdown import Narrowing
from catchment.spark.source.record_reading import RecordReading


class BatchReader(DataSourceReader):
    """Reads from the start to the end that the options name, or less where filters allow it."""

    def __init__(self, options: SourceOptions, reading: RecordReading) -> None:
        self._options = options
        self._reading = reading
        self._narrowing = Narrowing()
        # Not a method of the class: `_OptionalPushdown` says why.
        vars(self)["pushFilters"] = _OptionalPushdown(self)

    def narrow(self, filters: Iterable[Filter]) -> None:
        """Read only what these filters may let through."""
        for one in filters:
            self._narrowing = self._narrowing.with_filter(one)

    def partitions(self) -> list[RangePartition]:
        """The ranges to read, each for a task."""
        options = self._options
        cluster = options.connection.cluster()
        places = options.selection.places(cluster)
        starts = options.start.resolve(cluster, places, options.read_committed)
        ends = self._existing(options.end.resolve(cluster, places, options.read_committed), cluster)
        kept = filter(self._narrowing.keeps, places)
        ranges = self._narrowing.narrow(cluster, [OffsetRange(*place, starts[place], ends[place]) for place in kept])
        return plan(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.read(partition)

    def _existing(self, ends: Offsets, cluster: Cluster) -> Offsets:
        """The ends, limited to the end of each partition: a task would wait for later offsets for ever."""
        if not isinstance(self._options.end, AtOffsets) or self._options.end.by_place is None:
            return ends
        latest = AtOffsets(LATEST).resolve(cluster, ends, self._options.read_committed)
        return {place: self._capped(place, end, latest[place]) for place, end in ends.items()}

    def _capped(self, place: TopicPartition, end: int, latest: int) -> int:
        if end > latest:
            topic, partition = place
            data_lost(
                f"endingOffsets names offset {end} of topic {topic}, partition {partition}, which ends at {latest}",
                fail=self._options.fail_on_data_loss,
            )
        return min(end, latest)


class _OptionalPushdown:
    """`pushFilters` of a reader that does without it where the session has it switched off.

    Spark refuses a reader that overrides the method while `spark.sql.python.filterPushdown.enabled` is false, which it is by
    default. It looks at the function behind the method; here that is the one of the base class.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.narrow(filters)
        return filters
