"""One Spark for all trials of a process: starting one takes longer than most trials."""

from __future__ import annotations

import atexit
import os
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from catchment.spark import session
from catchment.spark.launch.settings import ROCKSDB, STATE_STORE

_FOR_SPARK: Final = {"spark.ui.enabled": "false"}
_FOR_SESSION: Final = {
    # A few rows need no more, and each of these is a task in every batch.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # State of one's own needs it.
    STATE_STORE: ROCKSDB,
}


def trial_session() -> SparkSession:
    """A session of its own on the Spark of this process, which is started if there is none and then ends with the process."""
    running = SparkSession.getActiveSession()
    if running is None:
        warehouse = {"spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / f"catchment-trials-{os.getpid()}")}
        running = session("local[2]", app_name="catchment trials", config=_FOR_SPARK | warehouse)
        atexit.register(running.stop)
    own = running.newSession()
    for name, value in _FOR_SESSION.items():
        own.conf.set(name, value)
    return own
