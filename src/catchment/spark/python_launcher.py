"""The Python that Spark starts for its work on this machine: ours, without the archive of PySpark's modules on its path, and quiet.

Spark puts `pyspark.zip` in front of what is installed. Python keeps no compiled modules of an archive, so each process that Spark
starts would compile them anew, most of a second of processor time, and a streaming query starts four. And a setting for the daemon
that starts workers holds only for some of them, so `worker_daemon` takes the place of PySpark's here, and `early_connection` that of the
process which plans.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

import pyspark

from catchment.spark import early_connection
from catchment.spark.java import launcher_name, write_launcher
from catchment.spark.session_settings import local_cores

_SCRIPT: Final = """#!/bin/bash
IFS=: read -ra entries <<< "$PYTHONPATH"
kept=()
for entry in "${entries[@]}"; do
  [[ "$entry" == */python/lib/@(pyspark|py4j-*).zip ]] || kept+=("$entry")
done
[[ "$1 $2" == "-m pyspark.daemon" ]] && set -- -m catchment.spark.worker_daemon "${@:3}"
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
