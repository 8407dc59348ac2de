"""What a declaration does not show: the operators of a stage's code, checked before the query is started.

Spark has a list of its own, and fails other queries with the name of a Java class. The common operators are described here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from catchment.client.errors import ClientError
from catchment.pipelines.execution.spark_errors import cause_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PYTHON: Final = "it runs Python for its rows; use Spark's own functions"
_REFUSED: Final = {
    "BatchEvalPython": _PYTHON,
    "ArrowEvalPython": _PYTHON,
    "MapInPandas": _PYTHON,
    "PythonMapInArrow": _PYTHON,
    "MapInArrow": _PYTHON,
    "FlatMapGroupsInPandas": _PYTHON,
    "FlatMapGroupsInPandasWithState": _PYTHON,
    "TransformWithStateInPySpark": _PYTHON,
    "TransformWithStateInPandas": _PYTHON,
    "DeduplicateWithinWatermark": "it removes duplicates within a lateness; the id of an alert does that as well",
    "Sort": "it sorts, and a stream has no end to sort up to",
    "GlobalLimit": "it limits the number of rows",
    "LocalLimit": "it limits the number of rows",
}
_SPARK_REFUSES: Final = "STREAMING_REAL_TIME_MODE"
_STATEFUL: Final = ("Aggregate", "Deduplicate")
_SESSION: Final = "session_window"


class NotInRealTime(ClientError):
    """An alert whose stages need what real-time mode does not support."""

    def __init__(self, alert: str, reasons: list[str]) -> None:
        super().__init__(
            f"alert {alert} cannot run in real-time mode: {'; '.join(reasons)}",
            "Leave its trigger out: micro-batches do all of this, in less than a second.",
        )
        self.args = (alert, reasons)
        self.alert = alert
        self.reasons = reasons


def require_allowed(rows: DataFrame, alert: str, *, is_append: bool) -> None:
    """NotInRealTime where the plan of these rows has an operator that the mode does not support."""
    reasons = list(dict.fromkeys(_reasons(rows, is_append=is_append)))
    if reasons:
        raise NotInRealTime(alert, reasons)


def refusal_of_spark(error: BaseException) -> str | None:
    """The error of Spark's own check of a query; None if something else ended the query."""
    cause = cause_of(error)
    return str(cause) if cause.kind.startswith(_SPARK_REFUSES) else None


def has_state(rows: DataFrame) -> bool:
    """Whether rows are counted, or duplicates removed, which takes task slots of its own."""
    return any(node.nodeName() in _STATEFUL for node in _nodes(_optimized(rows)))


def _optimized(rows: DataFrame) -> Any:
    """The optimized plan, in which calls of Python are separate operators. The analyzed plan does not show them."""
    optimizer = rows.sparkSession._jsparkSession.sessionState().optimizer()
    return optimizer.execute(rows._jdf.queryExecution().analyzed())


def _reasons(rows: DataFrame, *, is_append: bool) -> Iterator[str]:
    for node in _nodes(_optimized(rows)):
        name = node.nodeName()
        if name in _REFUSED:
            yield _REFUSED[name]
        elif name == "Join" and node.left().isStreaming() and node.right().isStreaming():
            yield "it joins two streams"
        elif name == "Aggregate" and _SESSION in node.toString():
            yield "it has session windows"
        elif name == "Aggregate" and is_append:
            yield "it aggregates in mode append, where a window shows when it closes; real-time mode shows each change"


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))
