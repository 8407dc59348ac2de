"""What Spark knows of a batch on its way into rows: the watermark as a column, and the ends of other topics in its offsets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.types import StructType
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.checkpoints import FakeCheckpoint
from tests.spark.driven_source import Query, batch_reader, rows, source, stream_reader
from tests.spark.sink_query import rows_of

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError, SettingsError
from catchment.client.producer import Producer
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.source.noted_offsets import noted_of_topic

TEN = [b"%d" % number for number in range(10)]
WATERMARK_MS = 1_767_225_604_250
TIME_MS = WATERMARK_MS + 60_000


@pytest.fixture(params=["v1", "v2"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> FakeCheckpoint:
    return FakeCheckpoint(tmp_path / "checkpoint", request.param)


def test_a_plan_is_read_in_both_of_spark_s_versions(checkpoint: FakeCheckpoint) -> None:
    checkpoint.plan(9, {"orders": {"0": 7}}, None, 12, watermark_ms=5, time_ms=6)
    checkpoint.plan(10, {"orders": {"0": 8}})
    checkpoint.finish(9)
    read = SparkCheckpoint.at(str(checkpoint))
    assert (read.newest_planned(), read.newest_finished(), read.query_id()) == (10, 9, checkpoint.query_id)
    plan = read.plan(9)
    assert (plan.batch_id, plan.watermark_ms, plan.time_ms) == (9, 5, 6)
    assert plan.ends == ({"orders": {"0": 7}}, 12)


@pytest.mark.parametrize(
    "text", ["v1\n{}", "v1\nno", "v3\n{}", "", 'v1\n{"batchWatermarkMs":1,"batchTimestampMs":1}\n{']
)
def test_a_damaged_plan_is_reported(checkpoint: FakeCheckpoint, text: str) -> None:
    (checkpoint.folder / "offsets/3").write_text(text)
    with pytest.raises(ClientError, match=r"offsets/3 in the checkpoint (is damaged|has version)"):
        SparkCheckpoint.at(str(checkpoint)).plan(3)


def test_rows_have_the_number_the_watermark_and_the_time_of_their_batch(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint
) -> None:
    topic = catchment_logs.topic(partitions=2)
    catchment_logs.fill(topic, TEN)
    catchment_logs.fill(topic, TEN, partition=1)
    query = Query(stream_reader(catchment_logs, subscribe=topic, startingOffsets="earliest", watermarkFrom=checkpoint))
    checkpoint.plan(0, watermark_ms=0)
    checkpoint.plan(1, watermark_ms=WATERMARK_MS, time_ms=TIME_MS)
    end = query.reader.latestOffset(query.start, query.limit)
    planned = query.reader.partitions(query.start, end)
    # What is planned stays so, whatever Spark plans meanwhile.
    checkpoint.plan(2, watermark_ms=WATERMARK_MS + 1, time_ms=TIME_MS + 1)
    found = rows(query.reader, planned)
    for name, noted_ms in (("watermark", WATERMARK_MS), ("batchTime", TIME_MS)):
        assert found.column(name).to_pylist() == [datetime.fromtimestamp(noted_ms / 1000, tz=UTC)] * 20
    assert found.column("batchId").to_pylist() == [1] * 20


def test_the_watermark_may_be_all_that_is_asked_for_and_stands_beside_typed_columns(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint
) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    checkpoint.plan(0, watermark_ms=1000)
    second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    made = source(catchment_logs, subscribe=topic, watermarkFrom=checkpoint, valueFormat="string", includeBytes="true")
    for schema in (StructType().add("watermark", "timestamp"), made.schema()):
        reader = made.streamReader(schema)
        planned = reader.partitions({topic: {"0": 0}}, {topic: {"0": 10}})
        found = rows(reader, planned)
        assert found.schema.names == schema.names
        assert found.column("watermark").to_pylist() == [second] * 10
    assert found.column("value").to_pylist() == [value.decode() for value in TEN]
    assert found.column("valueBytes").to_pylist() == TEN


def test_a_batch_query_has_no_watermark(catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    reader = batch_reader(catchment_logs, subscribe=topic, watermarkFrom=checkpoint)
    found = rows(reader, reader.partitions())
    for name in ("watermark", "batchTime", "batchId"):
        assert found.column(name).to_pylist() == [None] * 10


def test_a_checkpoint_without_a_plan_is_reported(catchment_logs: CatchmentLogs, tmp_path: Path) -> None:
    topic = catchment_logs.topic()
    reader = stream_reader(catchment_logs, subscribe=topic, watermarkFrom=tmp_path)
    with pytest.raises(SettingsError, match=r"no batch at .*watermarkFrom.*checkpointLocation of the very query"):
        reader.partitions({topic: {"0": 0}}, {topic: {"0": 0}})


def test_ends_of_other_topics_are_noted_with_each_batch_and_make_none(logs: Logs) -> None:
    topic, table = logs.topic(), logs.topic(partitions=2)
    logs.fill(topic, TEN)
    logs.fill(table, TEN[:3], partition=1)
    query = Query(stream_reader(logs, subscribe=topic, startingOffsets="earliest", noteTopics=table))
    assert query.batch() == TEN
    noted = {f"noted:{table}": {"0": 0, "1": 3}}
    assert query.read == {topic: {"0": 10}, **noted}
    logs.fill(table, TEN)
    assert query.batch() == []
    assert query.read == {topic: {"0": 10}, **noted}, "a table that changes makes no batch"
    logs.fill(topic, [b"x"])
    assert query.batch() == [b"x"]
    assert query.read == {topic: {"0": 11}, f"noted:{table}": {"0": 10, "1": 3}}
    assert query.reader.reportLatestOffset() == {topic: {"0": 11}}


def test_a_first_batch_that_is_empty_notes_too(catchment_logs: CatchmentLogs) -> None:
    topic, table = catchment_logs.topic(), catchment_logs.topic()
    catchment_logs.fill(table, TEN)
    query = Query(stream_reader(catchment_logs, subscribe=topic, noteTopics=f"{table}, "))
    assert query.batch() == []
    assert query.read == {topic: {"0": 0}, f"noted:{table}": {"0": 10}}


def test_what_is_not_decided_is_not_noted(logs: Logs) -> None:
    """A reader up to there would wait for the end of the transaction."""

    topic, table = logs.topic(), logs.topic()
    logs.fill(table, TEN)
    logs.fill(topic, TEN)
    query = Query(stream_reader(logs, subscribe=topic, startingOffsets="earliest", noteTopics=table))
    with Cluster(logs.bootstrap_servers) as cluster, Producer(cluster, transactional_id="undecided") as producer:
        producer.begin()
        producer.write(table, rows_of(["a"]))
        producer.flush()
        assert query.batch() == TEN
        producer.abort()
    assert query.start[f"noted:{table}"] == {"0": 10}


def test_what_several_sources_have_noted_is_taken_together() -> None:
    ends = [{"noted:t": {"0": 4, "1": 2}, "u": {"0": 9}}, {"noted:t": {"0": 3}, "t": {"0": 99}}, {"logOffset": 5}, 7]
    assert noted_of_topic(ends, "t") == {0: 4, 1: 2}
    assert noted_of_topic(ends, "u") == {}
