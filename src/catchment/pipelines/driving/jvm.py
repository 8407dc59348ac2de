"""The JVM of a driver: its process, whether it is alive, and how it is ended."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from catchment.pipelines.driving.supervision.cleanup import RUN_VARIABLE
from catchment.pipelines.execution.run import Run

_END_S: Final = 5.0
_DYING_S: Final = 1.0


def end_with_input(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End a process that ends when its standard input does, by force if that takes too long."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def jvm_pid(spark: SparkSession) -> int | None:
    """The process id; None for a JVM that PySpark did not start."""
    process = _process(spark)
    return process.pid if process else None


def has_died(spark: SparkSession, within_s: float = _DYING_S) -> bool:
    """Whether the JVM has ended, or ends within that time: its connections break some time before its process ends."""
    process = _process(spark)
    if process is None:
        return False
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def end_jvm(spark: SparkSession, run: Run | None) -> None:
    """Stop the queries, then the session, then the process, as far as they are still alive.

    A JVM whose session is stopped would only remove its temporary files, which the supervisor does too.
    """
    process = _process(spark)
    if not has_died(spark, within_s=0):
        with suppress(Py4JError, PySparkException, OSError):
            if run is not None:
                run.stop()
            spark.stop()
    if process is not None:
        if RUN_VARIABLE in os.environ:
            process.kill()
        end_with_input(process, _END_S)


def _process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """PySpark's own handle of the JVM that it started."""
    gateway = spark.sparkContext._gateway
    return getattr(gateway, "proc", None)
