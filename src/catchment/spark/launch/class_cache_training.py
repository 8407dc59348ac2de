"""Make the cache that Spark starts from: run what most jobs run, and let the JVM write down what it loaded.

`python -m catchment.spark.launch.class_cache_training` does it now instead of after the first session.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import window

from catchment.spark.launch.class_cache import SWITCH, cache_path, drop_oldest_caches, recording_options
from catchment.spark.launch.java import Java, find_java
from catchment.spark.launch.session import session
from catchment.spark.launch.settings import ROCKSDB, STATE_STORE

_LOWEST_PRIORITY: Final = 19
# The JVM writes the cache when it ends, which takes it some seconds.
_WRITE_TIMEOUT_S: Final = 600


def train() -> None:
    """Make the cache, unless it is there or another process is at it."""
    java = find_java()
    path = cache_path(java)
    if path is None or path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        # A killed run may have left its file; the JVM writes a new one.
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        _record(java, unfinished)
        # The rename is the last step: a cache that is there is whole.
        unfinished.replace(path)
    drop_oldest_caches(path.parent)


def _record(java: Java, path: Path) -> None:
    os.environ[SWITCH] = "off"
    with session("local[1]", config={"spark.driver.extraJavaOptions": recording_options(java, path)}) as spark:
        _exercise(spark)
    gateway = SparkContext._gateway
    assert gateway is not None
    # Spark's JVM ends when its standard input does.
    gateway.proc.stdin.close()
    gateway.proc.wait(_WRITE_TIMEOUT_S)


def _exercise(spark: SparkSession) -> None:
    """A query, and a stream with windows, state in RocksDB and a Python function."""
    spark.conf.set(STATE_STORE, ROCKSDB)
    spark.range(1000).selectExpr("id % 7 AS key", "CAST(id AS STRING) AS value").groupBy("key").count().collect()
    ticks = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    counts = ticks.groupBy(window("timestamp", "1 second")).count().selectExpr("to_json(window) AS window", "count")
    counts = counts.mapInArrow(lambda rows: rows, counts.schema)
    stream = counts.writeStream.outputMode("update").foreachBatch(lambda rows, _: rows.toArrow()).start()
    stream.processAllAvailable()
    stream.stop()


if __name__ == "__main__":
    os.nice(_LOWEST_PRIORITY)
    train()
