"""Keep Spark's Declarative Pipelines alive: send no empty profile with what a data source answers.

Every Python process that plans for a data source sends the results of PySpark's profiler, empty ones as well. They reach the
client of a pipeline, which knows no such answer and fails the run, though all its rows are written (seen with Spark 4.3.0).
"""

from __future__ import annotations

import sys
from typing import IO, Final

from pyspark.accumulators import SpecialAccumulatorIds, _accumulatorRegistry

_PROFILES: Final = (SpecialAccumulatorIds.SQL_UDF_PROFIER, SpecialAccumulatorIds.SQL_UDF_PROFIER_V2)


def send_no_empty_profiles() -> None:
    """Called where the data source is imported; changes nothing but in processes that plan for a data source."""
    planning = sys.modules.get("pyspark.sql.worker.utils")
    if planning is None:
        return
    send = planning.send_accumulator_updates

    def send_what_there_is(connection: IO[bytes]) -> None:
        for profile in _PROFILES:
            if profile in _accumulatorRegistry and not _accumulatorRegistry[profile]._value:
                del _accumulatorRegistry[profile]
        send(connection)

    planning.__dict__["send_accumulator_updates"] = send_what_there_is
