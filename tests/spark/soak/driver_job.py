"""The program under fire: one topic mapped to a second and counted into a third, by two queries in one Spark driver.

A query that fails is started again from its checkpoint, as a supervisor would; only the death of this process is left to the
test. What went wrong is printed, so that the log of a run says why queries were started again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState
from tests.spark.soak.plan import BUCKETS, COUNTED, MAPPED, SOURCE, Plan

from catchment.spark import session

_LOOK_S: Final = 0.1


class Job:
    def __init__(self, spark: SparkSession, plan: Plan) -> None:
        self._spark = spark
        self._plan = plan
        self._queries: dict[str, Callable[[DataFrame], DataFrame]] = {MAPPED: self._mapped, COUNTED: _counted}
        self._running: dict[str, StreamingQuery] = {}

    def run(self) -> None:
        while True:
            for name in self._queries:
                running = self._running.get(name)
                if running is None or not running.isActive:
                    if running is not None:
                        _say(f"{name} failed: {running.exception()}")
                    self._start(name)
            time.sleep(_LOOK_S)

    def _start(self, name: str) -> None:
        options = {"kafka.bootstrap.servers": self._plan.bootstrap_servers, "topic": name}
        try:
            writer = self._queries[name](self._source()).writeStream.format(self._plan.format)
            checkpoint = str(self._plan.checkpoint(name))
            self._running[name] = writer.queryName(name).options(**options, checkpointLocation=checkpoint).start()
        except Exception as error:
            # With its broker away a query may not even start: the next look tries again.
            _say(f"{name} did not start: {error}")

    def _source(self) -> DataFrame:
        options = {"kafka.bootstrap.servers": self._plan.bootstrap_servers, "subscribe": SOURCE}
        reader = self._spark.readStream.format(self._plan.format).options(**options, startingOffsets="earliest")
        return reader.load().withColumn("number", f.substring_index(f.col("value").cast("string"), ":", 1))

    def _mapped(self, source: DataFrame) -> DataFrame:
        text = f.concat_ws(":", "partition", "offset", "number", f.md5("value"))
        mapped = source.select(f.col("number").alias("key"), text.alias("value"), "partition")
        if not self._plan.holds:
            return mapped
        wait = f.udf(_waiting(str(self._plan.hold_path)), "string")
        return mapped.withColumn("value", wait("partition", "value"))


def _counted(source: DataFrame) -> DataFrame:
    """Running counts. Spark gives no sink in Python the update mode, so the state is ours and every row an appended one."""
    bucket = (f.col("number").cast("long") % BUCKETS).cast("string")
    buckets = source.select(bucket.alias("key")).groupBy("key")
    return buckets.applyInPandasWithState(_count, "key string, value string", "count long", "append", "NoTimeout")


def _count(key: tuple[Any, ...], frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
    first = next(frames)
    before = state.get[0] if state.exists else 0
    count = before + len(first) + sum(map(len, frames))
    state.update((count,))
    yield first.head(1).assign(value=f"{key[0]}:{count}")


def _waiting(hold_path: str) -> Callable[[int, str], str]:
    def wait(partition: int, value: str) -> str:
        while partition == 1 and os.path.exists(hold_path):
            time.sleep(_LOOK_S)
        return value

    return wait


def _say(text: str) -> None:
    sys.stdout.write(f"{text[:2000]}\n")
    sys.stdout.flush()


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    config = {
        # Every batch that ever was tells the test what the counts must have been.
        "spark.sql.streaming.minBatchesToRetain": "1000000",
        # This driver will not live long enough for code that is compiled well.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if plan.jars is not None:
        config["spark.jars"] = plan.jars
    # A task may fail three times, as on a cluster; on a local master the first time would be the last.
    Job(session("local[2,4]", app_name="soak", config=config), plan).run()


if __name__ == "__main__":
    main()
