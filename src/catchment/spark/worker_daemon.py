"""PySpark's worker daemon with two differences: workers begin with all that a task needs, and hang-ups leave no traceback.

A worker is a fork of the daemon. Loading our format takes it most of a second, and PySpark lets each worker do that for itself, for
libraries may start threads, which a fork does not have. What is loaded here starts none of its own: Spark allows NumPy one, and the
thread of Arrow's spare allocator is begun anew after a fork.

`python_launcher` starts it. `hang_ups` keeps quiet where our data source is loaded; some workers, such as those that look for data
sources, never load it, and on a cluster there is no launcher.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Final

from pyspark import daemon

from catchment.spark.hang_ups import QuietTraceback

_LOADED: Final = ("catchment.spark.data_source", "catchment.spark.stream_writer", "catchment.client.producer")
_TASKS: Final = "pyspark.worker"
"""What runs tasks. Other daemons, which plan and commit, have one worker each."""


def load_what_tasks_need() -> None:
    """The format, and the compiled loops; out of the garbage collector's sight, which would copy the pages that workers share."""
    # Daemons for other work load none of it.
    from catchment.client.warming import warm

    for module in _LOADED:
        import_module(module)
    warm()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    daemon.__dict__["traceback"] = QuietTraceback
    if sys.argv[1:] == [_TASKS]:
        load_what_tasks_need()
    daemon.manager()
