"""The running task: its query or job, batch, Spark partition and attempt, from the local properties that Spark sets."""

from __future__ import annotations

from typing import NamedTuple

from pyspark import TaskContext

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"
"""Spark makes the run of a query a group of jobs."""


class TaskFacts(NamedTuple):
    """A task. Spark may run several attempts at one partition, at the same time as well."""

    query_id: str
    """Empty outside of a stream."""
    batch_id: int
    """-1 outside of a stream."""
    spark_partition: int
    attempt: int
    run_id: str = ""
    """Another one each time that a query is started; empty where it is not known."""


def current_task() -> TaskFacts:
    """The task that this process runs."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this is done by Spark's tasks only")
    return TaskFacts(
        context.getLocalProperty(_QUERY_ID) or "",
        int(context.getLocalProperty(_BATCH_ID) or -1),
        context.partitionId(),
        context.attemptNumber(),
        context.getLocalProperty(_RUN_ID) or "",
    )
