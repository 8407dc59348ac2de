"""Read a topic to its end in one batch job, into Spark's noop sink: the cost of a source and of the conversion to JVM rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catchment.bench.measure import Measure, Section
from catchment.bench.spark.side import EXACTLY_ONCE, THEIRS, Side
from catchment.bench.spark.stage import Cost, Stage, TopicShape
from catchment.bench.spark.workload import READ, rate_measures, rates
from catchment.bench.workloads.throughput import size_title

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALL_COLUMN_BARS = {100: 4.0, 1_000: 2.5}
VALUE_BARS = {100: 4.5, 1_000: 3.0}


@dataclass(frozen=True, slots=True)
class Read:
    """One topic, all columns or the value alone. The bars are for topics that are not compressed."""

    shape: TopicShape
    value_alone: bool = False
    section: Section = READ
    sides: Sequence[Side] = (EXACTLY_ONCE, THEIRS)

    @property
    def name(self) -> str:
        columns = "value" if self.value_alone else "all"
        return f"read-{columns}-{size_title(self.shape.record_bytes).replace(' ', '')}-{self._codec}"

    @property
    def _codec(self) -> str:
        return "plain" if self.shape.codec == "none" else self.shape.codec

    @property
    def measures(self) -> Sequence[Measure]:
        bars = VALUE_BARS if self.value_alone else ALL_COLUMN_BARS
        columns = "value alone" if self.value_alone else "all columns"
        title = f"read {size_title(self.shape.record_bytes)}, {columns}, {self._codec}"
        bar = bars.get(self.shape.record_bytes) if self.shape.codec == "none" else None
        return rate_measures(self.name, title, bar)

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        if stage.is_first_check(self.name, side.title):
            counted = whole_topic(stage, side, stage.filled_topic(self.shape), value_alone=self.value_alone).count()
            if counted != self.shape.records:
                raise RuntimeError(f"{counted} rows of {self.shape.records} were read")
        return rates(self.name, self.shape.records, read_cost(stage, side, self.shape, value_alone=self.value_alone))


def read_cost(stage: Stage, side: Side, shape: TopicShape, *, value_alone: bool = False) -> Cost:
    """Read the whole topic once; the clock covers the job from its planning to its end."""
    topic = stage.filled_topic(shape)
    with stage.costs() as cost:
        whole_topic(stage, side, topic, value_alone=value_alone).write.format("noop").mode("overwrite").save()
    return cost


def whole_topic(stage: Stage, side: Side, topic: str, *, value_alone: bool = False) -> DataFrame:
    """The topic from its beginning to its current end, with the wanted columns."""
    reader = stage.spark.read.format(side.format).options(**side.read_options)
    reader = reader.option("kafka.bootstrap.servers", stage.bootstrap_servers).option("subscribe", topic)
    if value_alone and side.takes_schema:
        return reader.schema("value binary").load()
    rows = reader.load()
    return rows.select("value") if value_alone else rows
