"""The Spark settings of a session, each with its reason. The caller of `session` may override any of them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_LOCAL_MASTER: Final = re.compile(r"local(\[.*\])?|local-cluster\[.*\]|spark://(127\.0\.0\.1|localhost|\[::1\]):\d+")
_LOCAL_CORES: Final = re.compile(r"local(?:\[(\*|\d+)(?:,.*)?\])?")
_ARROW_FLAGS: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"

PYTHON: Final = "spark.pyspark.python"
DRIVER_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
STATE_STORE: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHECKPOINT_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
FILE_SYSTEM_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

FOR_PLANS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that runs no query: what its optimising compiler does in the first seconds is more than half of its processor time."""
FOR_A_WHILE: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""For one that ends when it has caught up: Java's own thresholds times ten, so that only what is run for each row is optimised."""


class Setting(NamedTuple):
    """One Spark setting: what we set and why."""

    name: str
    value: str
    reason: str


def settings_for(master: str) -> list[Setting]:
    """What a session on this master is given."""
    settings = list(_everywhere())
    if _LOCAL_MASTER.fullmatch(master):
        settings += _LOOPBACK
    if cores := local_cores(master):
        settings.append(
            Setting(
                CHECKPOINT_MANAGER,
                FILE_SYSTEM_MANAGER,
                "Spark's default forks some 20 processes a batch on a local disk, a third of a small batch's time.",
            )
        )
        settings.append(
            Setting(
                "spark.sql.shuffle.partitions",
                str(cores),
                "Spark's 200 tasks a shuffle cost more than the work of a small batch: one for each core of a local master.",
            )
        )
    return settings


def local_cores(master: str) -> int | None:
    """How many tasks a local master runs at once; None for a cluster."""
    match = _LOCAL_CORES.fullmatch(master)
    if match is None:
        return None
    if match[1] == "*":
        return os.cpu_count() or 1
    return int(match[1] or 1)


_LOOPBACK: Final = (
    Setting(
        "spark.driver.host",
        "127.0.0.1",
        "On a loopback master no other machine needs to reach the driver, and no host name has to resolve.",
    ),
    Setting("spark.driver.bindAddress", "127.0.0.1", "The same: the driver's ports are not open to the network."),
)


def _everywhere() -> tuple[Setting, ...]:
    return (
        Setting(
            PYTHON,
            sys.executable,
            "Workers need the interpreter that has Catchment; Spark would take the first python3 of the path.",
        ),
        Setting(
            DRIVER_JAVA_OPTIONS,
            f"{_ARROW_FLAGS} -Dlog4j2.configurationFile={_LOGGING.as_uri()}",
            "Arrow without bounds checks reads 21 to 30% more rows a second; only errors are logged.",
        ),
        Setting("spark.executor.defaultJavaOptions", _ARROW_FLAGS, "The same on the executors of a cluster."),
        Setting(
            "spark.python.unix.domain.socket.enabled",
            "true",
            "Between the JVM and Python, Nagle's algorithm meets delayed acknowledgements: an empty query takes half the time.",
        ),
        Setting(
            "spark.sql.python.filterPushdown.enabled",
            "true",
            "Without it a filter on offset, partition or timestamp reads the whole topic.",
        ),
        Setting("spark.ui.enabled", "false", "The web interface takes a port and start-up time."),
        Setting("spark.ui.showConsoleProgress", "false", "The progress bar of a batch job writes over what you print."),
    )
