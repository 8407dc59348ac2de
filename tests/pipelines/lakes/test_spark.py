"""Lakes written and read by Spark: all types, partition expressions, and streams whose batches are repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars
import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from tests.pipelines.lakes.lake_world import all_types, by_duckdb

from catchment.pipelines.execution.sinks import BatchHandler, for_each_batch
from catchment.pipelines.lakes import LakeRefused, open_lake
from catchment.pipelines.lakes.delta import DeltaLake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REPORTS = 200


@pytest.fixture(params=["delta", "parquet"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tokyo(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in another time zone than the lake's."""
    before = spark.conf.get("spark.sql.session.timeZone", "UTC")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def _reports(spark: SparkSession) -> DataFrame:
    return spark.range(0, _REPORTS, numPartitions=3).selectExpr(
        "id AS number",
        "CASE id % 5 WHEN 0 THEN 'Old Town/North' WHEN 1 THEN '100% ä' WHEN 2 THEN '' WHEN 3 THEN NULL ELSE '{x}' END AS district",
        "timestamp_micros(1772409599000000 + id * 60000000) AS at",
    )


def _rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """Compared as tuples: a row of Spark's is one."""
    return [tuple(row) for row in frame.orderBy("number").collect()]


def test_every_type_is_the_same_for_spark_duckdb_and_polars(tokyo: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = all_types().append_column("number", pyarrow.array([0, 1, 2]))
    lake = open_lake(str(tmp_path / "lake"), kind=kind)
    frame = tokyo.createDataFrame(rows, from_arrow_schema(rows.schema))

    assert lake.write(frame, "board", 0)

    assert lake.read_arrow().sort_by("number").cast(rows.schema).to_pylist() == rows.to_pylist()
    assert by_duckdb(lake.dataset(), "FROM lake ORDER BY number").cast(rows.schema).to_pylist() == rows.to_pylist()
    stored = lake.read_spark(tokyo)
    assert stored.schema.simpleString() == frame.schema.simpleString()
    assert _rows(stored) == _rows(frame)
    if kind == "delta":
        assert polars.read_delta(str(tmp_path / "lake")).sort("number").equals(polars.DataFrame(rows))


def test_partition_columns_are_computed_and_read_back_by_every_reader(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    lake = open_lake(str(tmp_path / "lake"), kind=kind, partition_by=["date(at)", "district", "hour(at) AS at_hour"])
    reports = _reports(spark)

    assert lake.write(reports, "board", 0)

    wanted = _rows(reports.selectExpr("number", "nullif(district, '') AS district", "at", "date(at)", "hour(at)"))
    columns = ["number", "district", "at", "at_date", "at_hour"]
    assert _rows(lake.read_spark(spark).select(columns)) == wanted
    rows = by_duckdb(lake.dataset(), "FROM lake ORDER BY number")
    assert len({str(row["at_date"]) for row in rows.to_pylist()}) == 2
    assert [row["district"] for row in rows.to_pylist()] == [row[1] for row in wanted]
    assert [row["at_hour"] for row in rows.to_pylist()] == [row[4] for row in wanted]
    if isinstance(lake, DeltaLake):
        lake.optimize()
        assert _rows(lake.read_spark(spark).select(columns)) == wanted


def test_an_old_version_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path / "lake"))
    lake.write(_reports(spark), "board", 0)
    lake.write(_reports(spark), "board", 1)

    assert lake.read_spark(spark).count() == 2 * _REPORTS
    assert lake.read_spark(spark, version=1).count() == _REPORTS
    assert lake.read_spark(spark, version=0).count() == 0


def test_a_job_that_fails_shows_nothing_and_may_be_repeated(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    lake = open_lake(str(tmp_path / "lake"), kind=kind, partition_by="district")
    failing = _reports(spark).selectExpr("IF(number = 190, raise_error('poison'), number) AS number", "district", "at")

    with pytest.raises(Exception, match="poison"):
        lake.write(failing, "board", 0)
    assert lake.read_arrow().num_rows == 0

    assert lake.write(_reports(spark), "board", 0)
    assert not lake.write(_reports(spark), "board", 0)
    assert sorted(lake.read_arrow().column("number").to_pylist()) == list(range(_REPORTS))


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("INTERVAL '1' DAY AS pause", "cannot keep column pause of type"),
        ("array(INTERVAL '1' DAY) AS pauses", r"cannot keep column pauses\.element of type"),
        ("NULL AS nothing", "cannot keep column nothing of type null"),
        ("count(*)", r"cannot have a column named 'count\(1\)'"),
        ("1 AS a, 2 AS A", "columns a and A differ by case alone"),
    ],
)
def test_what_a_lake_cannot_keep_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, kind: str, expression: str, reason: str
) -> None:
    lake = open_lake(str(tmp_path / "lake"), kind=kind)

    with pytest.raises(LakeRefused, match=reason):
        lake.write(spark.sql(f"SELECT {expression}"), "board", 0)


def test_a_partition_column_that_the_rows_have_not_or_have_already_is_refused(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(LakeRefused, match="partitioned by town, and the rows have no such column"):
        open_lake(str(tmp_path / "lake"), kind=kind, partition_by="town").write(_reports(spark), "board", 0)
    with pytest.raises(LakeRefused, match="have a column district already"):
        open_lake(str(tmp_path / "lake"), kind=kind, partition_by="lower(district) AS district").write(
            _reports(spark), "board", 0
        )


def _stream(spark: SparkSession, source: Path, checkpoint: Path, write: BatchHandler) -> None:
    """Run a stream with state over files of numbers, one file a batch, until it has read them all."""
    files = spark.readStream.schema("number long").option("maxFilesPerTrigger", 1).parquet(str(source))
    query = (
        files.dropDuplicates(["number"])
        .writeStream.foreachBatch(for_each_batch(write))
        .option("checkpointLocation", str(checkpoint))
    )
    query.trigger(availableNow=True).start().awaitTermination()


def test_a_stream_stopped_between_the_lake_and_its_own_notes_adds_every_row_once(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    source, checkpoint, path = tmp_path / "source", tmp_path / "checkpoint", str(tmp_path / "lake")
    outcomes: list[tuple[int, bool]] = []

    def write(rows: DataFrame, batch_id: int) -> bool:
        outcomes.append((batch_id, open_lake(path, kind=kind).write(rows, "stream", batch_id)))
        return outcomes[-1][1]

    source.mkdir()
    with duckdb.connect() as connection:
        for file in range(4):
            query = f"SELECT range AS number FROM range({file * 50}, {file * 50 + 50})"
            connection.execute(f"COPY ({query}) TO '{source / f'{file}.parquet'}' (FORMAT parquet)")
            _stream(spark, source, checkpoint, write)
            # As if the driver had been killed before Spark noted the batch.
            (checkpoint / "commits" / str(file)).unlink()
    _stream(spark, source, checkpoint, write)

    lake = open_lake(path, kind=kind)
    assert sorted(lake.read_arrow().column("number").to_pylist()) == list(range(200))
    assert outcomes == [(0, True), (0, False), (1, True), (1, False), (2, True), (2, False), (3, True), (3, False)]
    assert lake.last_batch("stream") == 3
