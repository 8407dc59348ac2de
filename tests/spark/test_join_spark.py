"""A stream joined with a table and counted, written in `foreachBatch` by real Spark: exactly once, with the same table again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.client.logs import CatchmentLogs

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from pyspark.sql import functions
from pyspark.sql.streaming.query import StreamingQuery

from catchment.client.arrow_api import write_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORTS = "district string, at timestamp"
CREWS = "district string, crew int"


class Failed(Exception):
    """What ends a query between a write and Spark's note that its batch is done."""


class Job:
    """Reports per district and ten seconds, with the crew of the district and the watermark of the batch, as they change."""

    def __init__(self, spark: SparkSession, logs: CatchmentLogs, folder: Path) -> None:
        self._spark = spark
        self._logs = logs
        self._checkpoint = str(folder / "checkpoint")
        self._servers = {"kafka.bootstrap.servers": logs.bootstrap_servers}
        self.reports, self.crews, self.board = logs.topic(partitions=2), logs.topic(), logs.topic(partitions=2)
        self.fails = False

    def put(self, topic: str, rows: list[tuple[str, dict[str, Any] | None]]) -> None:
        values = [None if row is None else json.dumps(row).encode() for _, row in rows]
        keys = [key.encode() for key, _ in rows]
        table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        write_arrow(topic, table, self._logs.bootstrap_servers)

    def report(self, districts: str, second: int) -> None:
        self.put(self.reports, [(one, {"district": one, "at": f"2026-01-01T00:00:{second:02d}Z"}) for one in districts])

    def start(self) -> StreamingQuery:
        reports = (
            self._spark.readStream.format("catchment")
            .options(**self._servers, subscribe=self.reports, startingOffsets="earliest", noteTopics=self.crews)
            .options(valueFormat="json", valueSchema=REPORTS, watermarkFrom=self._checkpoint)
            .load()
            .select("value.*", "watermark")
            .withWatermark("at", "10 seconds")
        )
        crews = (
            self._spark.read.format("catchment-table")
            .options(**self._servers, topic=self.crews, tableKey="district", checkpointLocation=self._checkpoint)
            .options(valueFormat="json", valueSchema=CREWS)
            .load()
            .select("value.*")
        )
        counts = (
            reports.join(crews, "district", "left")
            .groupBy("district", functions.window("at", "10 seconds"))
            .agg(
                functions.count("*").alias("n"),
                functions.max("crew").alias("crew"),
                functions.max("watermark").alias("w"),
            )
        )
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", self._checkpoint)
        return writer.foreachBatch(self._write).start()

    def run(self) -> None:
        """Everything that is there, from where the last run has ended."""
        query = self.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def _write(self, rows: DataFrame, batch_id: int) -> None:
        for topic, name in ((self.board, "board"), (self.board, "copy")):
            (
                rows.selectExpr("district AS key", "concat_ws(' ', district, n, crew, unix_seconds(w)) AS value")
                .write.format("catchment")
                .options(**self._servers, topic=topic, checkpointLocation=self._checkpoint, sinkName=name)
                .mode("append")
                .save()
            )
            if self.fails:
                raise Failed

    def written(self) -> list[str]:
        found = [value for partition in range(2) for value in self._logs.settled_values(self.board, partition)]
        return sorted((value or b"").decode() for value in found)


@pytest.mark.timeout(1500)
def test_a_repeated_batch_is_written_once_and_joins_the_table_as_it_was(
    spark: SparkSession, catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    job = Job(spark, catchment_logs, tmp_path)
    job.put(job.crews, [("a", {"district": "a", "crew": 1}), ("b", {"district": "b", "crew": 1})])
    job.report("aab", second=15)
    job.fails = True
    with pytest.raises(Exception, match="Failed"):
        job.run()
    # The first write of the batch is done and the second is not. Meanwhile everything changes.
    assert job.written() == ["a 2 1 0", "b 1 1 0"]
    job.put(job.crews, [("a", {"district": "a", "crew": 2}), ("b", None)])
    job.report("ab", second=16)
    job.fails = False
    job.run()
    # Crews are counted with each report, so the largest of those that were seen is shown.
    expected = ["a 2 1 0", "b 1 1 0", "a 3 2 1767225605", "b 2 1 1767225605"]
    assert job.written() == sorted(expected * 2)
