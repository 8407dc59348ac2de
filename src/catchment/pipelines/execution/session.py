"""The Spark session that pipelines run in: the settings that their guarantees rest on, from the first batch."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark import cloudpickle
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.spark.launch.session import planning_session, started
from catchment.spark.launch.settings import FOR_A_WHILE, ROCKSDB, STATE_STORE

SOURCE_EVOLUTION: Final = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_TRACEBACKS: Final = "CATCHMENT_TRACEBACK"
_PYTHON_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""By which PySpark itself logs the stacks of the JVM."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
SETTINGS: Final[dict[str, str]] = {
    # Queries share the cores evenly: a busy one does not delay the others.
    "spark.scheduler.mode": "FAIR",
    # State may outgrow the memory; only the changes of each batch are written.
    STATE_STORE: ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A checkpoint with named sources stays valid when a source is added. This cannot be turned on later.
    SOURCE_EVOLUTION: "true",
    # The text of times, and the windows of a day, do not depend on the machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "20s",
    # Streams have no filters to push down, and a joined table would be planned again in every batch.
    "spark.sql.python.filterPushdown.enabled": "false",
    # Workers are forked with the loops for rows between stages, which would otherwise be loaded by each.
    "spark.executorEnv.CATCHMENT_AVRO_ROWS": "1",
    # The driver reads all of these at each check.
    "spark.sql.streaming.numRecentProgressUpdates": "16",
}


def pipeline_session(
    specification: PipelineSpecification,
    master: str,
    *,
    config: Mapping[str, str] | None = None,
    is_endless: bool = True,
) -> SparkSession:
    """A session for one pipeline; `config` has the last word."""
    settings = _settings(specification) | dict(config or {})
    return started(master, _name(specification), settings, "" if is_endless else FOR_A_WHILE)


def plan_session(specification: PipelineSpecification) -> SparkSession:
    """A session in which the queries of a pipeline are planned, and not run."""
    return planning_session(_name(specification), _settings(specification))


def _settings(specification: PipelineSpecification) -> dict[str, str]:
    parallelism = specification.parallelism
    return SETTINGS | ({} if parallelism is None else {"spark.sql.shuffle.partitions": str(parallelism)})


def _name(specification: PipelineSpecification) -> str:
    return f"catchment {specification.pipeline}"


def silence(spark: SparkSession) -> None:
    """Turn Spark's log off, unless stack traces are asked for: errors reach us as exceptions, and are reported in short."""
    if os.environ.get(_TRACEBACKS):
        return
    spark.sparkContext.setLogLevel("OFF")
    for name in _PYTHON_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


def carry_modules(folder: Path) -> None:
    """Have functions of a pipeline's own files sent to Spark's workers, which cannot import them."""
    # PySpark leaves this function without types.
    register: Any = cloudpickle.register_pickle_by_value
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and module.__name__ != "__main__" and _is_the_authors(module, Path(file).resolve(), folder.resolve()):
            register(module)


def _is_the_authors(module: ModuleType, file: Path, folder: Path) -> bool:
    """Whether a module is beside a pipeline's file, or a file below that which belongs to no package."""
    is_in_package = "." in module.__name__ or hasattr(module, "__path__") or "site-packages" in file.parts
    return file.parent == folder or (folder in file.parents and not is_in_package)


def read_stream(spark: SparkSession, name: str) -> DataStreamReader:
    """A reader of a stream that has a name in its checkpoint. Spark takes names of all streams of a session, or of none."""
    reader = spark.readStream
    is_named = spark.conf.get(SOURCE_EVOLUTION, "false") == "true"
    return reader.name(_NOT_IN_NAMES.sub("_", name)) if is_named else reader
