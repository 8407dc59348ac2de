"""A topic copied to another by a streaming query in several batches: the cost of exactly once with its ledger."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from catchment.bench.measure import Measure, Section
from catchment.bench.spark.side import EXACTLY_ONCE, Side
from catchment.bench.spark.stage import Stage, TopicShape
from catchment.bench.spark.workload import STREAM, rate_measures, rates
from catchment.bench.spark.writing import EXACTLY_ONCE_BAR, OUR_AT_LEAST_ONCE
from catchment.bench.workloads.throughput import size_title
from catchment.bench.workloads.workload import fresh_topic

_BATCHES = 4


@dataclass(frozen=True, slots=True)
class ExactlyOnceStream:
    """The clock runs from the start of the query to its end; both guarantees plan the same batches."""

    shape: TopicShape
    name: str = "stream-exactly-once"
    section: Section = STREAM
    sides: Sequence[Side] = (EXACTLY_ONCE, OUR_AT_LEAST_ONCE)

    @property
    def measures(self) -> Sequence[Measure]:
        title = f"copy {size_title(self.shape.record_bytes)} in {_BATCHES} batches, ours exactly once"
        return rate_measures(self.name, title, EXACTLY_ONCE_BAR, OUR_AT_LEAST_ONCE.column)

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        topic = stage.filled_topic(self.shape)
        servers = stage.bootstrap_servers
        reader = stage.spark.readStream.format(side.format).option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        rows = reader.option("maxOffsetsPerTrigger", self.shape.records // _BATCHES).load().select("key", "value")
        writer = rows.writeStream.format(side.format).options(**side.write_options)
        with (
            fresh_topic(stage.target, self.shape.partitions) as sink_topic,
            tempfile.TemporaryDirectory(dir=stage.directory) as checkpoint,
        ):
            writer = writer.option("kafka.bootstrap.servers", servers).option("topic", sink_topic)
            with stage.costs() as cost:
                query = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
                query.awaitTermination()
            if (written := stage.count_written(sink_topic)) != self.shape.records:
                raise RuntimeError(f"{written} rows of {self.shape.records} were written")
        return rates(self.name, self.shape.records, cost)
