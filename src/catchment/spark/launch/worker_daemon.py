"""PySpark's worker daemon with two differences: workers start with everything loaded, and disconnects leave no traceback.

A worker is a fork of the daemon. Loading our format takes it half a second, the loops of tasks as long again, and PySpark lets each
worker do that for itself, for libraries may start threads, which a fork does not have. What is loaded here starts none of its own:
Spark allows NumPy one, and Arrow starts the thread of its allocator again after a fork.

There is a daemon for each kind of work, and every stream has a worker of its own in those that plan, begin and commit its batches.

`python_command` starts it. `python_workers` does the same where our data source is imported; some workers, such as those that look up
data sources, never import it, and on a cluster there is no such command.
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
"""What runs no tasks. Other daemons have few workers, which may never see our format."""


def load_for(work: str) -> None:
    """What workers of this kind need, out of the garbage collector's sight, which would copy the pages that they share."""
    if work == _TASKS:
        # Who only plans needs no compiler.
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
