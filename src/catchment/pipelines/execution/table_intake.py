"""The intake of a table: it sets aside what is broken, once for all queries that join the table.

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
from catchment.pipelines.execution.setting_aside import READING, as_it_came, headers, undecodable
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import TableIntake

_RECORD: Final = "_record"
_ERROR: Final = "_error"
_BATCH_TIME: Final = "_batch_time"


def table_intake_records(place: Workplace, intake: TableIntake) -> DataFrame:
    """The streaming rows that the sink is to write."""
    options = stream_options(place, intake.table.topic, intake.name) | decoding_options(intake.table, place.folder)
    options |= READING | {"watermarkFrom": place.checkpoint(intake.name)}
    rows = read_stream(place.spark, intake.table_name).format("catchment").options(**options).load()
    return broken_records(place, intake, rows)


def broken_records(place: Workplace, intake: TableIntake, rows: DataFrame) -> DataFrame:
    """The same from any stream of the table's records. One without a value deletes a row, and is well."""
    typed = rows.select(
        as_it_came().alias(_RECORD),
        undecodable().alias(_ERROR),
        F.col("batchTime").alias(_BATCH_TIME),
        *(["value"] if intake.table.format == "text" else ["value.*"]),
    )
    schema = StructType(typed.schema.fields[3:])
    reason = F.coalesce(F.col(_ERROR), *beyond_calendar(schema, intake.table.format))
    return typed.where(reason.isNotNull()).select(
        F.lit(place.graph.quarantine).alias("topic"),
        F.col(f"{_RECORD}.key").alias("key"),
        F.col(f"{_RECORD}.value").alias("value"),
        headers(place, intake.name, _RECORD, reason).alias("headers"),
        F.col(_BATCH_TIME).alias("timestamp"),
    )
