"""The format "catchment-table": a topic as a table, to be joined with a stream or read by itself.

Spark plans such a table once and not for every batch of the stream. So it is the task that finds out which batch it works for,
and how far the table was when that batch was planned; the stream's source has noted it in the checkpoint (`noteTopics`).
Outside of a stream the table is read to its end.

Gaps
    A batch that is repeated after compaction has removed what its version consisted of finds only what is left: set the
    topic's `min.compaction.lag.ms` to longer than a query may be away.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from catchment.client.errors import ClientError
from catchment.client.offsets import LATEST
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.formats.decoding import Decoding
from catchment.spark.launch.python_workers import freeze_loaded_objects
from catchment.spark.source.columns import check_schema, source_schema
from catchment.spark.source.noted_offsets import noted_of_topic
from catchment.spark.table.contents import TableContents, TableShape
from catchment.spark.table.options import TableOptions, check_table_key
from catchment.spark.task_facts import TaskFacts, current_task

_MOST_TABLES: Final = 8
_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
_ROWS_PER_BATCH: Final = 100_000

_tables: OrderedDict[tuple[object, ...], TableContents] = OrderedDict()


class TableDataSource(DataSource):
    """A topic as a table."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._decoding: Decoding | None = None

    @classmethod
    def name(cls) -> str:
        return "catchment-table"

    def schema(self) -> StructType:
        return source_schema(self._pinned_decoding(), include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        decoding = self._pinned_decoding()
        check_schema(schema, decoding)
        options = TableOptions.read(self.options)
        check_table_key(options.table_key, source_schema(decoding, include_headers=False)["value"].dataType)
        identity = tuple(sorted((name.lower(), str(value)) for name, value in self.options.items()))
        return TableReader(options, decoding, schema, identity)

    def _pinned_decoding(self) -> Decoding:
        if self._decoding is None:
            self._decoding = Decoding.read(self.options, [TableOptions.read(self.options).topic])
        return self._decoding


class TableReader(DataSourceReader):
    """Reads the table in one task."""

    def __init__(
        self, options: TableOptions, decoding: Decoding, schema: StructType, identity: tuple[object, ...]
    ) -> None:
        self._options = options
        self._schema = to_arrow_schema(schema, timezone="UTC")
        full = source_schema(decoding, include_headers="headers" in schema.names)
        errors = [name for name in full.names if name.endswith("Error")]
        names = list(dict.fromkeys([*schema.names, *_NEEDED, *errors]))
        kept = to_arrow_schema(StructType([full[name] for name in names]), timezone="UTC")
        self._shape = TableShape(options.topic, options.table_key, decoding, kept)
        self._identity = (*identity, tuple(names))

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The table, as it was when the batch of this task was planned."""
        ends = self._ends(current_task())
        rows = self._contents().at(self._options.connection.cluster(), ends)
        table = pa.Table.from_arrays([rows.column(name) for name in self._schema.names], schema=self._schema)
        yield from table.to_batches(max_chunksize=_ROWS_PER_BATCH)
        freeze_loaded_objects()

    def _ends(self, task: TaskFacts) -> dict[int, int]:
        options = self._options
        if task.batch_id < 0:
            cluster = options.connection.cluster()
            # The process may be as old as its Spark, and the topic may have more partitions by now.
            places = [(options.topic, partition) for partition in cluster.partitions(options.topic, max_age_s=0)]
            found = cluster.list_offsets(places, LATEST, read_committed=True)
            return {partition: found[topic, partition].offset for topic, partition in places}
        if options.checkpoint is None:
            raise ClientError(
                f"the table of topic {options.topic} is read in a stream, but the stream is not known",
                "Give checkpointLocation of that stream to the table.",
            )
        try:
            plan = SparkCheckpoint.at(options.checkpoint).plan(task.batch_id)
        except FileNotFoundError as cause:
            raise ClientError(
                f"batch {task.batch_id} is not planned at {options.checkpoint} as seen from a task",
                "Give the table checkpointLocation of the stream that it is joined with, where all executors can read it.",
            ) from cause
        noted = noted_of_topic(plan.ends, options.topic)
        if not noted:
            raise ClientError(
                f"batch {task.batch_id} does not say how far the table of topic {options.topic} is to be read",
                f"Set noteTopics={options.topic} on the stream's source; the topic must exist.",
            )
        return noted

    def _contents(self) -> TableContents:
        """What this process knows of the table already."""
        if self._identity not in _tables:
            _tables[self._identity] = TableContents(self._shape)
        _tables.move_to_end(self._identity)
        while len(_tables) > _MOST_TABLES:
            _tables.popitem(last=False)
        return _tables[self._identity]
