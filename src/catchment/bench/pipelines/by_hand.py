"""The stages of a pipeline as written without one: `readStream`, `writeStream`, and a function for the store.

Nothing is quarantined, checked for lateness or protected against a repeated batch beyond what Spark and the sink do themselves. The
pipeline's guarantees are compared with this.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from catchment.bench.pipelines.reports import KINDS, SCHEMA, Topics

_UPSERT: Final = "INSERT OR REPLACE INTO board VALUES (?, ?, ?, ?, ?)"
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS board (district, start, end, count, crew, PRIMARY KEY (district, start)) WITHOUT ROWID"
)


def cleaning(spark: SparkSession, servers: str, topics: Topics, checkpoint: Path) -> DataStreamWriter:
    """Reports without duplicates and unknown kinds, into a topic."""
    rows = _stream(spark, servers, topics.reports).where(f"kind IN {KINDS}").withWatermark("at", "20 seconds")
    once = rows.dropDuplicatesWithinWatermark(["id"])
    records = once.select(F.col("district").alias("key"), F.to_json(F.struct(*once.columns)).alias("value"))
    writer = records.writeStream.format("catchment").option("kafka.bootstrap.servers", servers)
    return writer.option("topic", topics.clean).option("checkpointLocation", str(checkpoint))


def counting(spark: SparkSession, servers: str, topics: Topics, folder: Path, checkpoint: Path) -> DataStreamWriter:
    """Counts of ten seconds beside the crews, into SQLite."""
    rows = _stream(spark, servers, topics.clean, committed=True).withWatermark("at", "20 seconds")
    counts = rows.groupBy("district", F.window("at", "10 seconds").alias("w")).count()
    board = counts.join(F.broadcast(_crews(spark, servers, topics)), "district", "left")
    board = board.select("district", "w.start", "w.end", "count", "crew")
    writer = board.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.foreachBatch(_upsert_into(folder / "by_hand.db"))


def keeping(spark: SparkSession, servers: str, topics: Topics, folder: Path, checkpoint: Path) -> DataStreamWriter:
    """All clean reports, into Parquet files."""
    rows = _stream(spark, servers, topics.clean, committed=True)
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    return writer.option("path", str(folder / "by_hand"))


def _stream(spark: SparkSession, servers: str, topic: str, *, committed: bool = False) -> DataFrame:
    reader = spark.readStream.format("catchment").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    if committed:
        reader = reader.option("kafka.isolation.level", "read_committed")
    reader = reader.option("maxOffsetsPerTrigger", "auto").option("valueFormat", "json").option("valueSchema", SCHEMA)
    return reader.load().select("value.*")


def _crews(spark: SparkSession, servers: str, topics: Topics) -> DataFrame:
    reader = spark.read.format("catchment").option("kafka.bootstrap.servers", servers)
    reader = reader.option("valueFormat", "json").option("valueSchema", "district string, crew int")
    return reader.option("subscribe", topics.crews).load().select("value.*")


def _upsert_into(file: Path) -> Callable[[DataFrame, int], None]:
    def upsert(rows: DataFrame, batch_id: int) -> None:
        with sqlite3.connect(file) as database:
            database.execute(_TABLE)
            database.executemany(
                _UPSERT, [(one[0], str(one[1]), str(one[2]), one[3], one[4]) for one in rows.collect()]
            )

    return upsert
