"""A streaming query of the sink's without Spark: its writers are made, sent to tasks and asked to commit in Spark's order."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import StructType
from tests.client.logs import Logs

from catchment.client.cluster import Cluster
from catchment.client.offsets import LATEST
from catchment.spark import batch_writer, stream_writer
from catchment.spark.commit_list import TaskMessage
from catchment.spark.stream_writer import StreamWriter
from catchment.spark.task_facts import TaskFacts

SCHEMA = StructType().add("key", "string").add("value", "string")


class Query:
    """What Spark knows of a query: where its checkpoint is, its id, and what is in its batches."""

    def __init__(self, logs: Logs, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
        self.logs = logs
        self.checkpoint = checkpoint
        self.topic = logs.topic(partitions=2)
        self.query_id = str(uuid.uuid4())
        self._monkeypatch = monkeypatch
        self.options = {
            "kafka.bootstrap.servers": logs.bootstrap_servers,
            "topic": self.topic,
            "checkpointlocation": str(checkpoint),
            **options,
        }
        self.begin_checkpoint()

    def begin_checkpoint(self) -> None:
        """What Spark writes before the first batch."""
        (self.checkpoint / "commits").mkdir(parents=True)
        (self.checkpoint / "metadata").write_text('{"id":"query"}')

    def writer(self) -> StreamWriter:
        """A writer as Spark makes one when it plans a batch or commits one; to make it is to recover."""
        return StreamWriter(self.options, SCHEMA)

    def task(
        self, writer: StreamWriter, batch_id: int, spark_partition: int, values: Sequence[str], attempt: int = 0
    ) -> TaskMessage:
        """What one task says when it has written its rows."""
        facts = TaskFacts(self.query_id, batch_id, spark_partition, attempt)
        self._monkeypatch.setattr(stream_writer, "current_task", lambda: facts)
        sent: StreamWriter = pickle.loads(pickle.dumps(writer))
        message = pickle.loads(pickle.dumps(sent.write(iter([rows_of(values)]))))
        assert isinstance(message, TaskMessage)
        return message

    def tasks(self, batch_id: int, partitions: Sequence[Sequence[str]]) -> list[TaskMessage]:
        """Phase one: a writer is made, and every task writes."""
        writer = self.writer()
        return [self.task(writer, batch_id, number, values) for number, values in enumerate(partitions)]

    def run(self, batch_id: int, partitions: Sequence[Sequence[str]]) -> None:
        """A batch from its plan to Spark's note that it is done."""
        messages = self.tasks(batch_id, partitions)
        self.writer().commit(messages, batch_id)
        self.finish(batch_id)

    def finish(self, batch_id: int) -> None:
        """Spark's own note that a batch is done."""
        (self.checkpoint / "commits" / str(batch_id)).write_text("v1\n{}")

    def values(self) -> list[str]:
        """What a reader of committed records finds, sorted, once nothing is open any more."""
        found = [value for partition in range(2) for value in self.logs.settled_values(self.topic, partition)]
        return sorted((value or b"").decode() for value in found)

    def visible(self) -> list[str]:
        """The same at this moment."""
        found = [value for partition in range(2) for value in self.logs.values(self.topic, partition)]
        return sorted((value or b"").decode() for value in found)

    def is_open(self) -> bool:
        """Whether a transaction holds up the readers of the topic."""
        places = [(self.topic, partition) for partition in range(2)]
        with Cluster(self.logs.bootstrap_servers) as cluster:
            return cluster.list_offsets(places, LATEST, read_committed=True) != cluster.list_offsets(places, LATEST)


def rows_of(values: Sequence[str]) -> pyarrow.RecordBatch:
    """Rows with keys, so that they go to both partitions."""
    return pyarrow.record_batch({"key": [f"key {value}" for value in values], "value": list(values)})


def write_batch(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], schema: StructType, partitions: Sequence[Any]
) -> tuple[batch_writer.BatchWriter, list[Any]]:
    """A batch job up to its commit: the writer, and what its tasks say."""
    writer = batch_writer.BatchWriter(options, schema, overwrite=False)
    messages = []
    for number, rows in enumerate(partitions):
        monkeypatch.setattr(batch_writer, "current_task", lambda number=number: TaskFacts("", -1, number, 0))
        sent: batch_writer.BatchWriter = pickle.loads(pickle.dumps(writer))
        messages.append(sent.write(iter([rows])))
    return writer, messages
