"""Every column that a declaration names, against the columns that its source or stage has: all that is wrong, each with its keys.

The same checks are made twice. Before Spark starts, they know the columns of sources whose schema the file gives, and of stages that
only clean those. When a pipeline is planned, they know the columns of every stage, and Spark itself checks expressions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from catchment.pipelines.alerts.rule import mistakes_in
from catchment.pipelines.declaration.specification import (
    Alert,
    LakeSink,
    Source,
    Stage,
    StoreSink,
    Table,
    TopicOut,
    TopicSink,
)
from catchment.pipelines.errors import Finding, Path, closest, dotted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Findings = Iterator[Finding]
SILENCE: Final = ("last_seen", "absent_ms")
"""The columns of an alert by absence, beside its key."""
_TIMESTAMP: Final = "timestamp"
_TIMES: Final = (_TIMESTAMP, "timestamp_ntz", "date")
_WINDOW: Final = re.compile(r"struct<.*\bend:timestamp\b.*>")
_COLUMN: Final = re.compile(r"\w+", re.ASCII)
_ALIAS: Final = re.compile(r"\s+as\s+\w+$", re.IGNORECASE)


class BadExpression(Exception):
    """An expression in SQL that cannot be computed of a row, and why."""


class Columns(Protocol):
    """The columns of a source or a stage."""

    @property
    def owner(self) -> str:
        """The name that people know it by: `stage clean`."""

    @property
    def schema(self) -> StructType: ...

    def kind(self, expression: str) -> DataType | None:
        """The type of an expression; None if it is not known yet. Raises `BadExpression`."""

    def check_condition(self, expression: str) -> None:
        """Raises `BadExpression` unless it is a condition on a row."""


def of_source(name: str, source: Source, columns: Columns) -> Findings:
    """The column that has the time of its events."""
    if source.event_time is not None:
        yield from _time(("sources", name, "event_time"), source.event_time, columns)


def of_table(name: str, table: Table, columns: Columns) -> Findings:
    """The columns of its key."""
    yield from names_known(("tables", name, "key"), table.key, columns)


def of_cleaning(name: str, stage: Stage, columns: Columns) -> Findings:
    """The columns and conditions by which a stage cleans: those of its source."""
    yield from names_known(("stages", name, "dedupe"), stage.dedupe, columns)
    for number, check in enumerate(stage.checks):
        yield from _condition(("stages", name, "checks", number, "expect"), check.expect, columns)


def of_result(name: str, stage: Stage, columns: Columns) -> Findings:
    """What a stage declares of its result."""
    yield from names_known(("stages", name, "key"), stage.key, columns)
    if stage.to is not None:
        yield from names_known(("stages", name, "to", "key"), stage.to.key, columns)
    if stage.event_time is not None:
        yield from _time(("stages", name, "event_time"), stage.event_time, columns)


def of_sink(number: int, sink: StoreSink | LakeSink | TopicSink, columns: Columns) -> Findings:
    """The columns that a sink names."""
    path: Path = ("sinks", number)
    if isinstance(sink, LakeSink):
        for place, text in enumerate(sink.partition_by):
            yield from _partition((*path, "partition_by"), place, text.strip(), columns)
        return
    yield from names_known((*path, "key"), sink.key, columns)
    if isinstance(sink, StoreSink) and sink.window_end is not None:
        yield from names_known((*path, "window_end"), (sink.window_end,), columns)


def of_alert(name: str, alert: Alert, columns: Columns) -> Findings:
    """The columns of an alert's key, condition, message and topics."""
    path: Path = ("alerts", name)
    yield from names_known((*path, "key"), alert.key, columns)
    if alert.when is not None:
        yield from _condition((*path, "when"), alert.when, columns)
    # An alert by absence has other columns than the rows that it watches.
    given = columns.schema.names if alert.absent_for is None else [*alert.key, *SILENCE]
    owner = columns.owner if alert.absent_for is None else f"an alert by absence on {columns.owner}"
    for number, target in enumerate(alert.to):
        if isinstance(target, TopicOut):
            yield from missing((*path, "to", number, "key"), target.key, owner, given)
    if alert.message is not None:
        for column, why in mistakes_in(alert.message, given):
            message = with_owner(why, owner) if column is None else no_column(owner, column, given)
            yield finding((*path, "message"), message)


def missing(path: Path, wanted: Sequence[str], owner: str, given: Sequence[str]) -> Findings:
    """A finding for each name that is no column."""
    for number, name in enumerate(wanted):
        if name not in given:
            # The line is that of the name itself, if the file has it on one of its own.
            yield Finding((*path, number), f"{dotted(path)}: {no_column(owner, name, given)}")


def no_column(owner: str, name: str, given: Collection[str]) -> str:
    """The message for a column that does not exist, with the one that may be meant."""
    close = closest(name, given)
    proposal = f"; did you mean {close}? It" if close else "; it"
    return f"{owner} has no column {name}{proposal} has {', '.join(given)}"


def with_owner(what: str, owner: str) -> str:
    """What is wrong, and with whose rows."""
    return what if owner in what else f"{what.rstrip('.')} ({owner})"


def names_known(path: Path, wanted: Sequence[str], columns: Columns) -> Findings:
    """A finding for each name that a source or a stage does not have."""
    yield from missing(path, wanted, columns.owner, columns.schema.names)


def _time(path: Path, name: str, columns: Columns) -> Findings:
    wrong = list(missing(path, (name,), columns.owner, columns.schema.names))
    yield from wrong
    if wrong:
        return
    kind = columns.schema[name].dataType.simpleString()
    if path[0] == "sources" and kind != _TIMESTAMP:
        yield finding(path, f"{name} is a {kind}. Declare it as timestamp: text as in ISO 8601 is read as one.")
    elif kind not in _TIMES and not _WINDOW.fullmatch(kind):
        yield finding(path, f"{name} is a {kind}. Cast it to timestamp.")


def _condition(path: Path, expression: str, columns: Columns) -> Findings:
    try:
        columns.check_condition(expression)
    except BadExpression as error:
        yield finding(path, with_owner(f"{expression}: {error}", columns.owner))


def _partition(path: Path, place: int, text: str, columns: Columns) -> Findings:
    if _COLUMN.fullmatch(text):
        yield from names_known(path, (text,), columns)
        return
    expression = _ALIAS.sub("", text)
    try:
        columns.kind(expression)
    except BadExpression as error:
        what = with_owner(f"{expression}: {error}", columns.owner)
        yield Finding((*path, place), f"{dotted(path)}: {what}")


def finding(path: Path, what: str) -> Finding:
    """What is wrong with a declaration, by its name."""
    return Finding(path, f"{dotted(path)}: {what}")
