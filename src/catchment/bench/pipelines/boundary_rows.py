"""Rows a second into a topic between stages and out of it, and the bytes of a record: Avro beside JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow.compute
from pyspark.sql.types import StructType

from catchment.bench.measure import Measure, Section
from catchment.bench.spark.side import OUR_FORMAT, Side
from catchment.bench.spark.stage import Stage
from catchment.bench.spark.workload import rate_measures, rates
from catchment.bench.target import OURS
from catchment.bench.workloads.workload import fresh_topic
from catchment.client.arrow_api import read_arrow
from catchment.pipelines.execution.rows.boundaries import to_records
from catchment.pipelines.execution.rows.row_values import decoding_options, encoding_options, row_columns, value_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from catchment.pipelines.declaration.specification import RowFormat

BOUNDARIES: Final = Section("boundaries", "rows between stages")
AVRO: Final = Side("avro", OURS, OUR_FORMAT)
JSON: Final = Side("json", "as JSON", OUR_FORMAT)
_PARTITIONS: Final = 4
_ROW: Final = (
    "uuid() AS id",
    "concat('district ', id % 20) AS district",
    "element_at(array('fire', 'flood', 'quake'), CAST(id % 3 AS INT) + 1) AS kind",
    "timestamp_micros(1750000000000000 + id * 1000) AS at",
    "id * 0.37D AS amount",
    "CAST(id % 100 AS INT) AS units",
)
"""A report: three texts, a time, a number with a fraction and a small one."""


@dataclass(frozen=True, slots=True)
class BoundaryRows:
    """The rows are in Spark's memory before the clock runs, and are read to the noop sink."""

    records: int
    name: str = "boundary-rows"
    section: Section = BOUNDARIES
    sides: Sequence[Side] = (AVRO, JSON)

    @property
    def measures(self) -> Sequence[Measure]:
        return (
            *rate_measures(f"{self.name} write", "rows to a topic", None, JSON.column),
            *rate_measures(f"{self.name} read", "rows from a topic", None, JSON.column),
            Measure(f"{self.name} bytes", "value of a record", "bytes", higher_is_better=False),
        )

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        rows_as: RowFormat = "avro" if side is AVRO else "json"
        rows = stage.spark.range(self.records, numPartitions=_PARTITIONS).selectExpr(*_ROW).persist()
        try:
            rows.count()
            with fresh_topic(stage.target, _PARTITIONS) as topic:
                return self._measured(stage, rows, topic, rows_as)
        finally:
            rows.unpersist()

    def _measured(self, stage: Stage, rows: DataFrame, topic: str, rows_as: RowFormat) -> dict[str, float]:
        servers = {"kafka.bootstrap.servers": stage.bootstrap_servers}
        records = to_records(rows, topic, ("district",), time_ms=0, rows_as=rows_as)
        with stage.costs() as writing:
            records.write.format(OUR_FORMAT).options(**servers, **encoding_options(records)).mode("append").save()
        if (written := stage.count_written(topic)) != self.records:
            raise RuntimeError(f"{written} rows of {self.records} were written")
        reader = stage.spark.read.format(OUR_FORMAT).options(**servers, **decoding_options(rows.schema, rows_as))
        wanted = StructType().add("value", value_schema(rows.schema, rows_as))
        found = reader.schema(wanted).option("subscribe", topic).load().select(*row_columns(rows.schema))
        with stage.costs() as reading:
            found.write.format("noop").mode("append").save()
        values = read_arrow(topic, stage.bootstrap_servers, columns=["value"]).column("value")
        size = pyarrow.compute.mean(pyarrow.compute.binary_length(values)).as_py()
        return {
            **rates(f"{self.name} write", self.records, writing),
            **rates(f"{self.name} read", self.records, reading),
            f"{self.name} bytes": float(size),
        }
