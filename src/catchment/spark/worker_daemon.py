"""PySpark's worker daemon with one difference: no traceback when Spark hangs up on a worker, whatever the worker was for.

`python_launcher` starts it. `hang_ups` does the same where our data source is loaded; some workers, such as those that look for data
sources, never load it, and on a cluster there is no launcher.
"""

from __future__ import annotations

from pyspark import daemon

from catchment.spark.hang_ups import QuietTraceback

if __name__ == "__main__":
    daemon.__dict__["traceback"] = QuietTraceback
    daemon.manager()
