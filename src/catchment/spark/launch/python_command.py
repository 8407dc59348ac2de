"""The command by which Spark starts Python on this machine: this interpreter, without PySpark's archive on its path.

Spark puts `pyspark.zip` in front of the installed packages. Python caches no compiled modules of an archive, so each process that
Spark starts would compile them again, most of a second of processor time, and a streaming query starts four. Spark's setting for the
worker daemon applies only to some daemons, so the command replaces PySpark's daemon by `worker_daemon`, and the process that plans a
stream by `early_connection`.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

import pyspark

from catchment.spark.launch import early_connection
from catchment.spark.launch.java import launcher_name, write_launcher
from catchment.spark.launch.settings import local_cores

_SCRIPT: Final = """#!/bin/bash
IFS=: read -ra entries <<< "$PYTHONPATH"
kept=()
for entry in "${entries[@]}"; do
  [[ "$entry" == */python/lib/@(pyspark|py4j-*).zip ]] || kept+=("$entry")
done
[[ "$1 $2" == "-m pyspark.daemon" ]] && set -- -m catchment.spark.launch.worker_daemon "${@:3}"
[[ "$1 $2" == "-m %(runner)s" ]] && set -- -P %(early)s "${@:2}"
PYTHONPATH=$(IFS=:; echo "${kept[*]}") exec %(python)s "$@"
"""


def python_command(master: str) -> str:
    """What `PYSPARK_PYTHON` should be: on a cluster this interpreter, for workers have no launcher of ours."""
    home = os.environ.get("SPARK_HOME")
    is_installed_spark = home is None or Path(home).resolve() == Path(pyspark.__file__).resolve().parent
    if local_cores(master) is None or not is_installed_spark:
        return sys.executable
    parts = {
        "python": shlex.quote(sys.executable),
        "runner": early_connection.RUNNER,
        "early": shlex.quote(early_connection.__file__),
    }
    place = f"python/{launcher_name(Path(sys.executable))}/python"
    return str(write_launcher(place, _SCRIPT % parts))
