"""Functions that Spark calls with each batch, made to compute all of it and to fail in few words.

A stage with state keeps its state only if every row of its batch is asked for. Since 4.1 Spark checks that, and ends the query for good
where a row was not: for a batch that is repeated and already written, too. So what a function has not computed is computed here.

Spark searches what such a function says for signs that the query is only being stopped, with an expression that recurses with
every letter. The text of an error of the JVM, which has its whole stack in it, overflows the thread's own stack there, and the
query ends without an error: as if it were done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final

from pyspark.sql import DataFrame

from catchment.pipelines.execution.spark_errors import cause_of

_LONGEST: Final = 2000
BatchHandler = Callable[[DataFrame, int], bool]
"""Takes a batch and its number; True if it has computed every row of the batch."""
ForeachBatch = Callable[[DataFrame, int], None]


class BatchFailed(Exception):
    """Says the class of the error that a batch failed with, and its message, as the last line of a traceback does."""


def for_each_batch(handler: BatchHandler) -> ForeachBatch:
    """What every query's `foreachBatch` is given: all rows are computed, and errors name their cause alone."""

    @wraps(handler)
    def handle(rows: DataFrame, batch_id: int) -> None:
        try:
            if not handler(rows, batch_id):
                _compute_all(rows)
        except Exception as error:
            cause = cause_of(error)
            place = f" ({cause.place})" if cause.place else ""
            # The expression begins to search at the name of this class.
            message = cause.message.replace("py4j.protocol.", "")[:_LONGEST]
            raise BatchFailed(f"{cause.kind or 'RuntimeError'}: {message}{place}") from None

    return handle


def _compute_all(rows: DataFrame) -> None:
    """Compute every row and keep none."""
    rows.write.format("noop").mode("append").save()
