"""PySpark's worker daemon with two differences: workers start with everything loaded, and disconnects leave no traceback.

A worker is a fork of the daemon. It takes half a second to import our format, and as long again to load the compiled loops of tasks.
PySpark leaves that to each worker, because libraries may start threads, which a fork does not inherit. The modules that are loaded
here start none: Spark limits NumPy to one thread, and Arrow restarts the thread of its allocator after a fork.

Spark starts a daemon for each kind of work. Every stream has a worker in each of the daemons that plan, begin and commit batches.

`python_command` starts this daemon on a local master. On a cluster, and in workers that never import our data source, PySpark's own daemon
runs; there `python_workers` silences disconnects when the data source is imported.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Final

from pyspark import daemon

from catchment.spark.launch.python_workers import QuietTraceback

ROWS_VARIABLE: Final = "CATCHMENT_AVRO_ROWS"
"""Set where tasks write rows as Avro and read them."""
_FORMAT: Final = ("catchment.spark.data_source", "catchment.spark.sink.stream_writer")
_TASKS: Final = "pyspark.worker"
_BESIDE_THE_DRIVER: Final = (
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
)
"""Work beside the driver, without tasks. Daemons for other work have few workers, which may never use our format."""


def load_for(work: str) -> None:
    """Import what workers of this kind need, and freeze it: garbage collection would copy the pages that forks share."""
    if work == _TASKS:
        # A worker that only plans needs no compiler.
        from catchment.client.warming import warm

        loaded = (*_FORMAT, "catchment.client.producer")
        warm()
        if os.environ.get(ROWS_VARIABLE):
            from catchment.spark.formats.rows.warming import warm_rows

            warm_rows()
    elif work in _BESIDE_THE_DRIVER:
        loaded = (*_FORMAT, work)
    else:
        return
    for module in loaded:
        import_module(module)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    daemon.__dict__["traceback"] = QuietTraceback
    load_for(sys.argv[1] if len(sys.argv) > 1 else _TASKS)
    daemon.manager()
