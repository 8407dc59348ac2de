"""Rows that a store can never take, brought into the quarantine before the rest of their batch is stored.

Behaviour
    A row is written as JSON, as topics for other readers have it, with headers that say why, and for which sink. It was computed, so
    there is no record that could be sent back: it has no place in a topic, and a replay passes it by.
    They are written under the number of their batch, which stands in the query's checkpoint before any of them can be seen: a batch
    that is repeated sets nothing aside a second time. And they are written before the store notes that number, so none is missing.
"""

from __future__ import annotations

import logging
from typing import Final

import pyarrow
from pyarrow import compute
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from catchment.pipelines.declaration.addresses import without_credentials
from catchment.pipelines.declaration.specification import StoreSink
from catchment.pipelines.execution.boundaries import as_key, sink_options
from catchment.pipelines.execution.row_values import as_json
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.setting_aside import own_headers
from catchment.pipelines.graph import Sink
from catchment.spark.checkpoint.progress import SparkCheckpoint

_logger = logging.getLogger(__name__)

_REASON: Final = "__catchment_unstorable"


class UnstorableRows:
    """Those of one sink."""

    def __init__(self, context: RunContext, sink: Sink, target: StoreSink, key: tuple[str, ...]) -> None:
        self._context = context
        self._sink = sink
        self._declared = target
        self._key = key

    def set_aside(self, batch: DataFrame, rows: pyarrow.Table, reasons: pyarrow.ChunkedArray, batch_id: int) -> None:
        """Write rows of a batch to the quarantine, once, each with its reason."""
        context, query = self._context, self._sink.query
        with_reasons = rows.append_column(_REASON, compute.cast(reasons, pyarrow.string()))
        schema = StructType([*batch.schema.fields, StructField(_REASON, StringType())])
        # In a single task, whatever the session's cores are: a repeated batch has to have the same ones.
        found = batch.sparkSession.createDataFrame(with_reasons, schema).coalesce(1)
        time_ms = SparkCheckpoint.at(context.checkpoint(query)).plan(batch_id).time_ms
        records = found.select(
            F.lit(context.graph.quarantine).alias("topic"),
            (as_key(self._key) if self._key else F.lit(None).cast("binary")).alias("key"),
            as_json(batch.columns).alias("value"),
            F.to_json(own_headers(self._facts(batch_id))).alias("headers"),
            F.timestamp_millis(F.lit(time_ms)).alias("timestamp"),
        )
        records.write.format("catchment").options(**sink_options(context, query)).mode("append").save()
        told = f"{rows.num_rows} rows of batch {batch_id} are in topic {context.graph.quarantine}"
        _logger.warning("%s: %s cannot take them: %s", told, self._where, reasons[0].as_py())

    @property
    def _where(self) -> str:
        return f"table {self._declared.table} of store {without_credentials(self._declared.store)}"

    def _facts(self, batch_id: int) -> dict[str, Column]:
        advice = f". Give such rows another value in {self._declared.from_}, or leave them out there."
        error = F.concat(F.lit(f"cannot be stored: in {self._where}, "), F.col(_REASON), F.lit(advice))
        return {
            "error": error,
            "pipeline": F.lit(self._context.pipeline),
            "stage": F.lit(self._declared.from_),
            "sink": F.lit(self._sink.name),
            "batch": F.lit(batch_id),
        }
