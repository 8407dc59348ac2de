"""The source driven as Spark drives it, but in this process: no JVM is needed to see what it plans and reads."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType
from tests.client.logs import Logs

from catchment.spark.data_source import CatchmentDataSource
from catchment.spark.source.planning import RangePartition
from catchment.spark.source.stream_reader import StreamReader

TIMEOUT_S = 150.0
Offsets = dict[str, dict[str, int]]


def source(logs: Logs, **options: Any) -> CatchmentDataSource:
    """Options are named with `__` for dots."""
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    return CatchmentDataSource(
        CaseInsensitiveDict(
            {"kafka.bootstrap.servers": logs.bootstrap_servers, "kafka.metadata.max.age.ms": "0"} | given
        )
    )


def batch_reader(logs: Logs, schema: StructType | None = None, /, **options: Any) -> DataSourceReader:
    made = source(logs, **options)
    return made.reader(made.schema() if schema is None else schema)


def stream_reader(logs: Logs, notices_address: str | None = None, /, **options: Any) -> StreamReader:
    made = source(logs, **options)
    vars(made)["notices_address"] = notices_address
    reader = made.streamReader(made.schema())
    assert isinstance(reader, StreamReader)
    return reader


def rows(reader: DataSourceReader | DataSourceStreamReader, partitions: Sequence[InputPartition]) -> pa.Table:
    """What the tasks of these partitions read, each from a copy of the reader as Spark sends it to them."""
    batches = []
    for partition in partitions:
        sent_reader, sent_partition = pickle.loads(pickle.dumps((reader, partition)))
        batches += list(sent_reader.read(sent_partition))
    return pa.Table.from_batches(batches) if batches else pa.table({"value": pa.array([], pa.binary())})


def values(reader: DataSourceReader | DataSourceStreamReader, partitions: Sequence[InputPartition]) -> list[bytes]:
    found: list[bytes] = rows(reader, partitions).column("value").to_pylist()
    return found


def batch_values(logs: Logs, **options: Any) -> list[bytes]:
    reader = batch_reader(logs, **options)
    return values(reader, reader.partitions())


def ranges(partitions: Sequence[InputPartition]) -> list[tuple[int, int, int]]:
    """Partition, start and end of each task."""
    assert all(isinstance(one, RangePartition) for one in partitions)
    return [one.offsets[1:] for one in partitions if isinstance(one, RangePartition)]


class Query:
    """A streaming query: batches in turn, each planned, read and finished."""

    def __init__(self, reader: StreamReader, start: Offsets | None = None) -> None:
        self.reader = reader
        self.limit: ReadLimit = reader.getDefaultReadLimit()
        self.start: Offsets = reader.initialOffset() if start is None else start

    @property
    def read(self) -> Offsets:
        """Where it stands, without what is noted of the topics."""
        return without_topics(self.start)

    def batch(self) -> list[bytes]:
        """What the next batch reads; nothing if it is empty."""
        end: Offsets = self.reader.latestOffset(self.start, self.limit)
        found = values(self.reader, self.reader.partitions(self.start, end))
        self.start = end
        return found


def without_topics(offsets: Offsets) -> Offsets:
    """Offsets without the ids of their topics."""
    return {name: partitions for name, partitions in offsets.items() if not name.startswith(("topic:", "run:"))}


def delete_records(logs: Logs, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": logs.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        deleted.result(TIMEOUT_S)


def delete_topic(logs: Logs, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": logs.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
