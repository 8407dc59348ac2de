"""The time of the records of a batch: later than that of every batch before it, whatever the clock does.

A query that reads another query's output distinguishes batches by the timestamp of their records, which is the time at which Spark planned
the batch. After a clock was set back, a batch would get the time of an earlier one. So times follow batch ids: the commit list of a batch
holds the time of its records, and the records of the next batch are at least a millisecond later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow
from pyspark.sql.types import StructType, TimestampType

from catchment.client.errors import SettingsError
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.sink.commit_list import CommitList

_TIMESTAMP: Final = "timestamp"
_MICROSECONDS: Final = pyarrow.timestamp("us", "UTC")


class BatchTimes(NamedTuple):
    """What the newest batch that was decided says of times; made on the driver and sent to the tasks."""

    batch_id: int = -1
    floor_ms: int = 0
    """No record of that batch is older."""
    newest_ms: int = -1
    """No record of that batch, or of one before it, is newer."""

    @classmethod
    def known(cls, newest: Sequence[CommitList]) -> BatchTimes | None:
        """From the lists of a batch; None if they say nothing of times, as those of other writers and of older versions."""
        times = [one.newest_ms for one in newest]
        floors = [one.floor_ms for one in newest]
        if not newest or None in times or None in floors:
            return None
        return cls(
            newest[0].batch_id,
            max(one for one in floors if one is not None),
            max(one for one in times if one is not None),
        )

    @classmethod
    def of(cls, newest: Sequence[CommitList], checkpoint: SparkCheckpoint) -> BatchTimes:
        """The same; where the lists say nothing, the batches had the times that Spark has planned them at."""
        if not newest:
            return cls()
        planned_ms = (plan.time_ms for plan in checkpoint.plans() if plan.batch_id <= newest[0].batch_id)
        return cls.known(newest) or cls(newest[0].batch_id, 0, max(planned_ms, default=-1))

    def floor_of(self, batch_id: int) -> int:
        """The earliest time that records of a batch may have; of one that is repeated, what it was before."""
        return self.floor_ms if batch_id == self.batch_id else self.newest_ms + 1


class Risen:
    """Batches of rows with no time before the floor, and the latest time that has gone by."""

    def __init__(self, batches: Iterable[pyarrow.RecordBatch], floor_ms: int) -> None:
        self._batches = batches
        self._floor_ms = floor_ms
        self.newest_ms = floor_ms

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        # The processes that plan a stream load this module and compute nothing.
        from pyarrow import compute

        for batch in self._batches:
            if not batch.num_rows:
                yield batch
                continue
            place = batch.schema.get_field_index(_TIMESTAMP)
            times = batch.column(place)
            if times.null_count:
                raise SettingsError(
                    f"{times.null_count} rows have no timestamp", "With risingTimestamps, every row needs one."
                )
            microseconds = times.cast(_MICROSECONDS).cast(pyarrow.int64())
            risen = compute.max_element_wise(microseconds, self._floor_ms * 1000)
            self.newest_ms = max(self.newest_ms, compute.max(risen).as_py() // 1000)
            yield batch.set_column(place, batch.schema.field(place), risen.cast(_MICROSECONDS).cast(times.type))


def check_timestamp(schema: StructType) -> None:
    """Refuse rows whose times cannot be made to rise."""
    if _TIMESTAMP not in schema.names or not isinstance(schema[_TIMESTAMP].dataType, TimestampType):
        raise SettingsError(
            "risingTimestamps needs a column timestamp of type timestamp",
            "Add one, such as current_timestamp(), or leave the option out.",
        )
