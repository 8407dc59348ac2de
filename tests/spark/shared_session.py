"""The Spark session that all tests of a process share. One that is lost, with its JVM or its executor, costs only the test that lost it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STILL_S = "1h"
"""A machine that stands still for minutes does not cost a session its executor, which is in the same process."""
_running: SparkSession | None = None


def get_session(config: Mapping[str, str]) -> SparkSession:
    global _running
    from catchment.spark import session

    if _running is not None and _is_lost(_running):
        stop_session()
    if _running is None:
        still = {"spark.network.timeout": _STILL_S, "spark.executor.heartbeatInterval": "60s"}
        _running = session("local[2]", app_name="tests", config={**still, **config})
    return _running


def stop_session() -> None:
    """Stop it, whatever state it is in; the next one gets a JVM of its own."""
    global _running
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if _running is None:
        return
    with warnings.catch_warnings(action="ignore"), suppress(Exception):
        _running.stop()
    if (gateway := SparkContext._gateway) is not None:
        with suppress(OSError):
            gateway.shutdown()
            gateway.proc.stdin.close()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = _running = None


def _is_lost(spark: SparkSession) -> bool:
    from py4j.protocol import Py4JError

    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except (AttributeError, Py4JError, OSError):
        return True
