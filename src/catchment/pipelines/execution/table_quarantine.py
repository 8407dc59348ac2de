"""The source stage of a table: it sets aside what is broken, once for all queries that join the table.

Those read the table's topic themselves, as of each of their batches, and pass by what is broken there: a row stays as it was. So all
that is left to do is to bring such records into the quarantine, which one query does, exactly once.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from catchment.pipelines.execution.boundaries import stream_options
from catchment.pipelines.execution.calendar_years import beyond_calendar
from catchment.pipelines.execution.decoding import decoding_options
from catchment.pipelines.execution.pipeline_session import read_stream
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.setting_aside import READING, as_it_came, headers, undecodable
from catchment.pipelines.graph import TableQuarantine

_RECORD: Final = "_record"
_ERROR: Final = "_error"
_BATCH_TIME: Final = "_batch_time"


def table_quarantine_records(context: RunContext, source_stage: TableQuarantine) -> DataFrame:
    """The streaming rows that the sink is to write."""
    options = stream_options(context, source_stage.table.topic, source_stage.name) | decoding_options(
        source_stage.table, context.folder
    )
    options |= READING | {"watermarkFrom": context.checkpoint(source_stage.name)}
    rows = read_stream(context.spark, source_stage.table_name).format("catchment").options(**options).load()
    return broken_records(context, source_stage, rows)


def broken_records(context: RunContext, source_stage: TableQuarantine, rows: DataFrame) -> DataFrame:
    """The same from any stream of the table's records. One without a value deletes a row, and is well."""
    typed = rows.select(
        as_it_came().alias(_RECORD),
        undecodable().alias(_ERROR),
        F.col("batchTime").alias(_BATCH_TIME),
        *(["value"] if source_stage.table.format == "text" else ["value.*"]),
    )
    schema = StructType(typed.schema.fields[3:])
    reason = F.coalesce(F.col(_ERROR), *beyond_calendar(schema, source_stage.table.format))
    return typed.where(reason.isNotNull()).select(
        F.lit(context.graph.quarantine).alias("topic"),
        F.col(f"{_RECORD}.key").alias("key"),
        F.col(f"{_RECORD}.value").alias("value"),
        headers(context, source_stage.name, _RECORD, reason).alias("headers"),
        F.col(_BATCH_TIME).alias("timestamp"),
    )
