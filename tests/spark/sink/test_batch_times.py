"""The clock of a writing query is set back: its batches keep their order, and readers still take each of them as a whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.types import StructField, StructType, TimestampType
from tests.client.logs import CatchmentLogs
from tests.client.settled import read_settled
from tests.spark import driven_source, sink_query
from tests.spark.sink.test_crashes import Killed, kill_after_ends

from catchment.client.cluster import Cluster
from catchment.client.errors import SettingsError
from catchment.client.transactions import Transactions
from catchment.spark.sink.stream_writer import StreamWriter

SCHEMA = StructType([*sink_query.SCHEMA.fields, StructField("timestamp", TimestampType())])
SECOND_MS = 1000


class ClockedQuery(sink_query.Query):
    """A query whose records have the time that its batch was planned at."""

    time_ms = 0

    def writer(self) -> StreamWriter:
        return StreamWriter(self.options, SCHEMA)

    def plan(self, batch_id: int) -> None:
        super().plan(batch_id)
        facts = {"batchWatermarkMs": 0, "batchTimestampMs": self.time_ms}
        (self.checkpoint / "offsets" / str(batch_id)).write_text(f"v1\n{json.dumps(facts)}")

    def run_at(self, time_ms: int, batch_id: int, partitions: Sequence[Sequence[str]]) -> None:
        self.time_ms = time_ms
        self.run(batch_id, partitions)

    def decide_and_die(self, time_ms: int, batch_id: int, partitions: Sequence[Sequence[str]], ends: int) -> None:
        """A batch of which the driver has committed some transactions when it is killed."""
        self.time_ms = time_ms
        messages = self.tasks(batch_id, partitions)
        with pytest.MonkeyPatch.context() as monkeypatch:
            kill_after_ends(monkeypatch, ends)
            writer = self.writer()
            with pytest.raises(Killed):
                writer.commit(messages, batch_id)

    def lose_second(self, batch_id: int) -> None:
        """The transaction of the second task of a batch ends as it does after its time-out."""
        with Cluster(self.logs.bootstrap_servers) as cluster:
            Transactions(cluster, f"catchment-spark-{self.query_id}-{batch_id % 2}-1-0", 60_000).init_producer_id()

    def follow(self, **options: object) -> driven_source.Query:
        """A query that reads it."""
        settings = {
            "startingOffsets": "earliest",
            "admitUpTo": self.checkpoint,
            "admission": "timestamp",
            "kafka__isolation__level": "read_committed",
        }
        reader = driven_source.stream_reader(self.logs, subscribe=self.topic, **settings, **options)
        return driven_source.Query(reader)

    def times_s(self) -> dict[str, float]:
        """The time of each record, in seconds."""
        rows = read_settled(self.topic, self.logs.bootstrap_servers, ["value", "timestamp"]).to_pylist()
        return {row["value"].decode(): row["timestamp"].timestamp() for row in rows}


@pytest.fixture
def query(catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClockedQuery:
    made = ClockedQuery(catchment_logs, tmp_path / "checkpoint", monkeypatch, risingTimestamps="true")

    def rows_of(values: Sequence[str]) -> pyarrow.RecordBatch:
        moments = [datetime.fromtimestamp(made.time_ms / 1000, tz=UTC)] * len(values)
        column = pyarrow.array(moments, pyarrow.timestamp("us", tz="UTC"))
        return pyarrow.record_batch({"key": list(values), "value": list(values), "timestamp": column})

    monkeypatch.setattr(sink_query, "rows_of", rows_of)
    return made


def read(query: driven_source.Query) -> list[str]:
    return sorted(value.decode() for value in query.batch())


BATCH = [["c", "d", "e", "f"], ["g", "h", "i", "j"]]
ROWS = sorted([*BATCH[0], *BATCH[1]])


def test_half_a_batch_is_not_read_though_its_clock_was_set_back(query: ClockedQuery) -> None:
    reader = query.follow()
    query.run_at(9 * SECOND_MS, 0, [["a"], ["b"]])
    query.values()
    assert read(reader) == ["a", "b"]
    query.decide_and_die(5 * SECOND_MS, 1, BATCH, ends=1)
    query.lose_second(1)
    assert query.values() == ["a", "b", *BATCH[0]], (
        "one of the two transactions is committed, the other will be repeated"
    )
    assert read(reader) == []
    assert read(query.follow()) == ["a", "b"], "nor by a query that has just been started"
    query.run(1, BATCH)
    query.values()
    assert read(reader) == ROWS


def test_a_catch_up_takes_whole_batches_in_the_order_of_their_ids(query: ClockedQuery) -> None:
    batches = []
    for batch_id, time_s in enumerate((9, 5, 6, 20, 3)):
        partitions = [
            [f"{batch_id}-{number}" for number in range(3)],
            [f"{batch_id}-{number}" for number in range(3, 5)],
        ]
        query.run_at(time_s * SECOND_MS, batch_id, partitions)
        batches.append(sorted([*partitions[0], *partitions[1]]))
    query.values()
    reader = query.follow(maxOffsetsPerTrigger=6)
    found = []
    while rows := read(reader):
        found.append(rows)
    assert found == batches
    assert [query.times_s()[f"{batch_id}-0"] for batch_id in range(5)] == [9, 9.001, 9.002, 20, 20.001]


def test_what_was_lost_of_a_batch_is_repeated_with_the_time_of_the_rest(query: ClockedQuery) -> None:
    query.run_at(9 * SECOND_MS, 0, [["a"], ["b"]])
    query.decide_and_die(5 * SECOND_MS, 1, BATCH, ends=1)
    query.lose_second(1)
    query.run(1, BATCH)
    assert query.values() == ["a", "b", *ROWS]
    assert {time_s for value, time_s in query.times_s().items() if value in ROWS} == {9.001}
    query.run_at(4 * SECOND_MS, 2, [["k"], []])
    query.values()
    assert query.times_s()["k"] == 9.002


def test_a_query_of_an_older_version_goes_on_behind_the_times_that_spark_has_planned(query: ClockedQuery) -> None:
    del query.options["risingTimestamps"]
    query.run_at(9 * SECOND_MS, 0, [["a"], ["b"]])
    query.run_at(10 * SECOND_MS, 1, [["c"], ["d"]])
    (path,) = (query.checkpoint / "sinks" / "catchment").iterdir()
    old = json.loads(path.read_text())
    del old["floor_ms"]
    for one in old["transactions"]:
        del one["newest_ms"]
    path.write_text(json.dumps(old))
    query.values()
    reader = query.follow()
    assert read(reader) == ["a", "b", "c", "d"]
    query.options["risingTimestamps"] = "true"
    query.decide_and_die(5 * SECOND_MS, 2, [["e", "f"], ["g", "h"]], ends=1)
    query.lose_second(2)
    query.values()
    assert read(reader) == []
    query.run(2, [["e", "f"], ["g", "h"]])
    query.values()
    assert read(reader) == ["e", "f", "g", "h"]
    assert query.times_s()["e"] == 10.001


def test_times_can_only_rise_where_there_are_times_and_a_checkpoint(query: ClockedQuery) -> None:
    with pytest.raises(SettingsError, match="risingTimestamps needs a column timestamp of type timestamp"):
        StreamWriter(query.options, sink_query.SCHEMA)
    with pytest.raises(SettingsError, match="risingTimestamps needs deliveryGuarantee=exactlyOnce"):
        StreamWriter({**query.options, "deliveryGuarantee": "atLeastOnce"}, SCHEMA)
