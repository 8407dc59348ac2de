"""The JVM of a driver: whose process it is, whether it lives, and how it ends."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from catchment.pipelines.execution.run import Run

_END_S: Final = 15.0


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
    """None on a server that others started."""
    process = _process(spark)
    return process.pid if process else None


def is_alive(spark: SparkSession) -> bool:
    process = _process(spark)
    return process is None or process.poll() is None


def end_jvm(spark: SparkSession, run: Run | None) -> None:
    """Stop the queries, then the session, then the process. What is dead already is no obstacle."""
    process = _process(spark)
    if is_alive(spark):
        with suppress(Py4JError, PySparkException, OSError):
            if run is not None:
                run.stop()
            spark.stop()
    if process is not None:
        end_with_input(process, _END_S)


def _process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """PySpark's own handle of the JVM that it started."""
    gateway = spark.sparkContext._gateway
    return getattr(gateway, "proc", None)
