"""A Spark session for topics: it finds Java, applies the settings, and registers the format.

Like `getOrCreate`, it returns the session of the process if there is one on the same master.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from catchment.client.errors import ClientError
from catchment.client.warming import warm
from catchment.spark.launch.class_cache import start_up_options
from catchment.spark.launch.java import find_java, shim_home
from catchment.spark.launch.python_command import python_command
from catchment.spark.launch.python_workers import ignore_disconnects
from catchment.spark.launch.settings import (
    CHECKPOINT_MANAGER,
    DRIVER_JAVA_OPTIONS,
    FILE_SYSTEM_MANAGER,
    FOR_PLANS,
    PYTHON,
    settings_for,
)
from catchment.spark.registration import register

_LONGEST_PATH: Final = 55


def session(
    master: str = "local[*]", *, app_name: str = "catchment", config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with the format "catchment": on this machine, on a cluster (`spark://…`) or on a server (`sc://…`).

    `config` has the last word over every setting. Settings of a running JVM, such as its memory, cannot change when the
    process has a session already: then only those of Spark SQL are taken over.
    """
    return started(master, app_name, dict(config or {}))


def started(master: str, app_name: str, config: dict[str, str], java_options: str = "") -> SparkSession:
    """The same, with further options for a JVM that this process starts."""
    is_remote = master.startswith("sc://")
    spark = _remote(master, app_name, config) if is_remote else _classic(master, app_name, config, java_options)
    register(spark)
    return spark


def planning_session(app_name: str, config: dict[str, str]) -> SparkSession:
    """A session that makes plans and runs none, without the format "catchment": it starts in half the time."""
    return _classic("local[1]", app_name, config, FOR_PLANS, is_warm=False)


def _remote(master: str, app_name: str, config: dict[str, str]) -> SparkSession:
    # The server's own settings are its operator's: only what the caller asks for is sent.
    builder = SparkSession.builder.remote(master).appName(app_name)
    return builder.config(map={**config}).getOrCreate()


def _classic(
    master: str, app_name: str, config: dict[str, str], java_options: str, *, is_warm: bool = True
) -> SparkSession:
    builder = SparkSession.builder.master(master).appName(app_name)
    if (running := _running()) is not None:
        if (its_master := running.conf.get("spark.master", master)) != master:
            raise ClientError(
                f"this process has a Spark session on {its_master} already, and one on {master} was asked for",
                "Stop it first with spark.stop(), or ask for the same master.",
            )
        return builder.config(map={**config}).getOrCreate()
    if is_warm:
        # The loops are compiled once here: each worker then takes them from Numba's cache.
        warm()
    java = find_java()
    settings = {setting.name: setting.value for setting in settings_for(master)}
    settings[DRIVER_JAVA_OPTIONS] += f" {start_up_options(java)} {_temporary_files()} {java_options}"
    # The planner and the stream's reader run beside the driver by PYSPARK_PYTHON, whatever spark.pyspark.python says.
    if not (python := os.environ.get("PYSPARK_PYTHON")):
        python = settings[PYTHON] = python_command(master)
    with _environment({"JAVA_HOME": str(shim_home(java)), "PYSPARK_PYTHON": python}):
        spark = builder.config(map={**settings, **config}).getOrCreate()
    ignore_disconnects(spark.sparkContext._accumulatorServer)
    if spark.conf.get(CHECKPOINT_MANAGER, None) == FILE_SYSTEM_MANAGER:
        _write_checkpoints_in_one_step(spark)
    return spark


def _temporary_files() -> str:
    """Have the JVM keep its temporary files where this process does: Java itself ignores TMPDIR."""
    folder = tempfile.gettempdir()
    # Spark splits the options at spaces, and has Unix sockets there, whose paths have a limit.
    return "" if " " in folder or len(os.fsencode(folder)) > _LONGEST_PATH else f"-Djava.io.tmpdir={folder}"


def _running() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _write_checkpoints_in_one_step(spark: SparkSession) -> None:
    """Have Hadoop's local file system write no `.crc` files.

    A checkpoint's file is renamed into its place, then its checksum. A process killed between the two leaves a new file beside
    the old checksum, and the query would never start again. Without checksums the one rename decides, as it does with
    Spark's default manager, which writes none either.
    """
    context = spark.sparkContext
    assert context._jvm is not None, "a started context has a JVM"
    file_system = context._jvm.org.apache.hadoop.fs.FileSystem
    file_system.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for Spark's launcher only, not for other programs or for a later session on another master."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
