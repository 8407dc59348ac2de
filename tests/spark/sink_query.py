"""A streaming query of the sink's without Spark: its writers are made, sent to tasks and asked to commit in Spark's order."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pytest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.static.primitive import i64
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from tests.client.logs import Logs

from catchment.client.cluster import Cluster
from catchment.client.offsets import LATEST
from catchment.spark.sink import batch_writer, stream_writer
from catchment.spark.sink.commit_list import TaskMessage
from catchment.spark.sink.stream_writer import StreamWriter
from catchment.spark.task_facts import TaskFacts

Way = Literal["stream", "foreachBatch"]
SCHEMA = StructType().add("key", "string").add("value", "string")


class ForeachWriter:
    """A write inside `foreachBatch`, as far as it differs: Spark does not tell it of which batch it is."""

    def __init__(self, options: dict[str, str]) -> None:
        self._writer = batch_writer.BatchWriter(options, SCHEMA, overwrite=False)

    def write(self, batches: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self._writer.write(batches)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        self._of(batch_id).commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        self._of(batch_id).abort(messages)

    def _of(self, batch_id: int) -> batch_writer.BatchWriter:
        """Spark commits with the writer that it has made when the batch was the newest."""
        vars(self._writer)["_batch_id"] = batch_id
        return self._writer


class Query:
    """What Spark knows of a query: where its checkpoint is, its id, and what is in its batches."""

    def __init__(
        self, logs: Logs, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, way: Way = "stream", /, **options: str
    ) -> None:
        self._way = way
        self.run_id = ""
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
        for name in ("commits", "offsets"):
            (self.checkpoint / name).mkdir(parents=True)
        self.plan(0)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": self.query_id}))

    def plan(self, batch_id: int) -> None:
        """Spark's own note of a batch that it is about to run. Later ones are gone with what was deleted."""
        for path in (self.checkpoint / "offsets").iterdir():
            if int(path.name) > batch_id:
                path.unlink()
        facts = {"batchWatermarkMs": 0, "batchTimestampMs": 0}
        (self.checkpoint / "offsets" / str(batch_id)).write_text(f"v1\n{json.dumps(facts)}")

    def writer(self) -> StreamWriter | ForeachWriter:
        """A writer as Spark makes one when it plans a batch or commits one; to make it is to recover."""
        return StreamWriter(self.options, SCHEMA) if self._way == "stream" else ForeachWriter(self.options)

    def task(
        self,
        writer: StreamWriter | ForeachWriter,
        batch_id: int,
        spark_partition: int,
        values: Sequence[str],
        attempt: int = 0,
    ) -> TaskMessage:
        """What one task says when it has written its rows."""
        facts = TaskFacts(self.query_id, batch_id, spark_partition, attempt, self.run_id)
        for module in (stream_writer, batch_writer):
            self._monkeypatch.setattr(module, "current_task", lambda: facts)
        sent: StreamWriter | ForeachWriter = pickle.loads(pickle.dumps(writer))
        message = pickle.loads(pickle.dumps(sent.write(iter([rows_of(values)]))))
        assert isinstance(message, TaskMessage)
        return message

    def tasks(self, batch_id: int, partitions: Sequence[Sequence[str]]) -> list[TaskMessage]:
        """Phase one: the batch is planned, a writer is made, and every task writes."""
        self.plan(batch_id)
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

    def transactional_ids(self, prefix: str) -> list[str]:
        """What follows the prefix in all transactional ids that the brokers keep, whatever the outcome of their transactions."""
        request = ListTransactionsRequest(
            state_filters=(), producer_id_filters=(), duration_filter=i64(-1), transactional_id_pattern=None
        )
        with Cluster(self.logs.bootstrap_servers) as cluster:
            answers = [cluster.ask(request, to=broker_id) for broker_id in cluster.broker_ids()]
        ids = [one.transactional_id for answer in answers for one in answer.transaction_states]
        return sorted(one.removeprefix(prefix) for one in ids if one.startswith(prefix))

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
