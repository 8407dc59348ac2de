"""Write generated rows into a topic in one batch job: the cost of the conversion from JVM rows and of a sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catchment.bench.client.payload import payloads
from catchment.bench.measure import Measure, Section
from catchment.bench.spark.side import AT_LEAST_ONCE, EXACTLY_ONCE, THEIRS, Side
from catchment.bench.spark.stage import Cost, Stage
from catchment.bench.spark.workload import WRITE, rate_measures, rates
from catchment.bench.workloads.throughput import size_title
from catchment.bench.workloads.workload import fresh_topic

WRITE_BARS = {100: 2.0, 1_000: 1.5}
# Exactly once may cost a quarter of the throughput.
EXACTLY_ONCE_BAR = 0.75
OUR_AT_LEAST_ONCE = replace(AT_LEAST_ONCE, column="at least once")
_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Write:
    """Both sides at least once, which is all that Spark's own sink guarantees."""

    record_bytes: int
    records: int
    section: Section = WRITE
    sides: Sequence[Side] = (AT_LEAST_ONCE, THEIRS)

    @property
    def name(self) -> str:
        return f"write-{size_title(self.record_bytes).replace(' ', '')}"

    @property
    def measures(self) -> Sequence[Measure]:
        title = f"write {size_title(self.record_bytes)}, at least once"
        return rate_measures(self.name, title, WRITE_BARS.get(self.record_bytes))

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        return rates(self.name, self.records, _write_cost(stage, side, self.record_bytes, self.records))


@dataclass(frozen=True, slots=True)
class ExactlyOnceWrite:
    """Our sink with its default guarantee, compared with the weaker one, and with Spark's own."""

    record_bytes: int
    records: int
    section: Section = WRITE
    sides: Sequence[Side] = (EXACTLY_ONCE, OUR_AT_LEAST_ONCE, THEIRS)

    @property
    def name(self) -> str:
        return f"exactly-once-{size_title(self.record_bytes).replace(' ', '')}"

    @property
    def measures(self) -> Sequence[Measure]:
        title = f"write {size_title(self.record_bytes)}, ours exactly once"
        return rate_measures(self.name, title, EXACTLY_ONCE_BAR, OUR_AT_LEAST_ONCE.column)

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        return rates(self.name, self.records, _write_cost(stage, side, self.record_bytes, self.records))


def _write_cost(stage: Stage, side: Side, record_bytes: int, records: int) -> Cost:
    # The value is a constant, so that generating rows costs next to nothing; the key is the row's number.
    (value,) = payloads(record_bytes, 1)
    numbers = stage.spark.range(0, records, 1, stage.cores)
    rows = numbers.selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS key", f"X'{value.hex()}' AS value")
    with fresh_topic(stage.target, _PARTITIONS) as topic:
        writer = rows.write.format(side.format).options(**side.write_options).mode("append")
        writer = writer.option("kafka.bootstrap.servers", stage.bootstrap_servers).option("topic", topic)
        with stage.costs() as cost:
            writer.save()
        if (written := stage.count_written(topic)) != records:
            raise RuntimeError(f"{written} rows of {records} were written")
    return cost
