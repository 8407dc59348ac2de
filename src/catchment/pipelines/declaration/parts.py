"""What a pipeline is declared of.

Parts are what it reads from and writes to, topics, stores, lakes and receivers of alerts, and the checks of its stages. Nodes are its
sources, tables and stages, for later stages, sinks and alerts to read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, TypeVar, overload

from typing_extensions import override

from catchment.pipelines.declaration.calls import Part, caller, declares, given
from catchment.pipelines.declaration.specification import Format, LakeFormat, OnError, Otherwise, RowFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 63
Arguments = ParamSpec("Arguments")
Rows = TypeVar("Rows", bound="DataFrame")


class Topic(Part):
    """A topic that is read or written."""

    @property
    def default_name(self) -> str:
        """The name of a source or a table without one: that of the topic, with `_` for dots."""
        name = _NOT_IN_NAMES.sub("_", str(self.declared["topic"]))[:_LONGEST_NAME]
        # A name begins with a letter.
        return name if name[:1].isalpha() else f"topic_{name}"[:_LONGEST_NAME]


class InputTopic(Topic):
    """A topic to read, for `Pipeline.source` and `Pipeline.table`."""


class AlertTarget(Part):
    """What receives alerts, for `Pipeline.alert`."""


class OutputTopic(AlertTarget, Topic):
    """A topic to write, for a stage, a sink or an alert."""


class StageTopic(Topic):
    """A topic to write in a format that the author chose, for a stage alone."""


class Store(Part):
    """A table of a real-time store, for `Pipeline.sink`."""


class Lake(Part):
    """A table of files that is kept without end, for `Pipeline.sink`."""


class Webhook(AlertTarget):
    """An address that receives alerts by POST, for `Pipeline.alert`."""


class Mail(AlertTarget):
    """An address that receives alerts by mail, for `Pipeline.alert`."""


class Check(Part):
    """A condition on the rows of a source, for `Pipeline.stage`."""


class Node:
    """A source, table or stage."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Its name in the pipeline."""

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Source(Node):
    """A stream of events, as `Pipeline.source` returns it."""


class Table(Node):
    """The last value of each key of a topic, as `Pipeline.table` returns it."""


class Stage(Node):
    """Rows computed from rows, as `Pipeline.stage` returns it."""


class FunctionStage(Stage, Generic[Arguments, Rows]):
    """A stage around a function, as the decorator `Pipeline.stage` returns it.

    It stays callable with DataFrames, so that a test may call the function alone. `__wrapped__` is the function itself.
    """

    __wrapped__: Callable[Arguments, Rows]

    def __init__(self, function: Callable[Arguments, Rows], name: str) -> None:
        functools.update_wrapper(self, function)
        super().__init__(name)

    def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> Rows:
        """Compute the rows of the stage from those of its inputs."""
        return self.__wrapped__(*arguments, **named)


@overload
def topic(
    name: str,
    *,
    schema: str,
    format: Format | None = None,
    registry: str | None = None,
    message: str | None = None,
    delimiter: str | None = None,
    on_error: OnError | None = None,
) -> InputTopic: ...


@overload
def topic(
    name: str,
    *,
    registry: str,
    format: Format | None = None,
    message: str | None = None,
    on_error: OnError | None = None,
) -> InputTopic: ...


@overload
def topic(name: str, *, format: Literal["text"], on_error: OnError | None = None) -> InputTopic: ...


@overload
def topic(
    name: str, *, format: RowFormat, key: str | Sequence[str] | None = None, partitions: int | None = None
) -> StageTopic: ...


@overload
def topic(name: str, *, key: str | Sequence[str] | None = None, partitions: int | None = None) -> OutputTopic: ...


@declares
def topic(
    name: str,
    *,
    format: Format | None = None,
    schema: str | None = None,
    registry: str | None = None,
    message: str | None = None,
    delimiter: str | None = None,
    on_error: OnError | None = None,
    key: str | Sequence[str] | None = None,
    partitions: int | None = None,
) -> Topic:
    """Name a topic to read or to write.

    A topic to read has a `schema`, a `registry` or the format `text`. Any other one is written.

    Args:
        name: The name of the topic. One that is written is created if it does not exist.
        format: How records are encoded. To read: `json` (the default), `csv`, `avro`, `protobuf` or `text`, which has one column
            `value`. To write, in a stage's `to` alone: `avro` (the default), which carries every type of Spark, or `json` for
            consumers outside the pipeline.
        schema: To read: columns in Spark's notation (`id string, at timestamp`), a schema in the format's own notation, or a file
            that holds one (`.ddl`, `.json`, `.avsc`, `.proto`, `.desc`, `.pb`), relative to the file of the pipeline.
        registry: To read: the address of a schema registry that has the schema.
        message: To read Protobuf: which message of the schema.
        delimiter: To read CSV: what separates the columns, `,` by default.
        on_error: To read: what to do with a record that does not decode. `fail` (the default) stops the pipeline, `quarantine`
            writes the record to the pipeline's quarantine topic, `drop` ignores it.
        key: To write: the columns that are the key of the records. By default the key of the stage.
        partitions: To write: how many partitions the topic is created with. By default the `parallelism` of the pipeline.

    Returns:
        An `InputTopic` to read, an `OutputTopic` to write, or a `StageTopic` to write in a chosen format.

    Examples:
        ```python
        topic("reports", format="csv", schema="id string, at timestamp", delimiter=";", on_error="quarantine")
        topic("payments", format="avro", registry="http://127.0.0.1:8081")
        topic("dispatch", key="district", partitions=4)
        ```
    """
    declared: dict[str, Any] = {"topic": name, **given(locals(), "name")}
    if schema is not None or registry is not None or format == "text":
        return InputTopic(declared, caller())
    return (OutputTopic if format is None else StageTopic)(declared, caller())


@declares
def store(
    url: str,
    *,
    table: str,
    key: str | Sequence[str] | None = None,
    ttl: str | None = None,
    window_end: str | None = None,
) -> Store:
    """Name a table of a real-time store, which applications query while the pipeline runs.

    Args:
        url: The address: `sqlite:///file`, `postgresql://user:password@host/database` or `redis://host:port`. The file of SQLite
            is relative to the file of the pipeline. Take passwords from the environment with `env`.
        table: The table or view that readers use. It is created if it does not exist.
        key: The columns that identify a row: a later row replaces an earlier one. By default the key of the stage; without any,
            rows are added.
        ttl: How long a row is kept, such as `1 year`. By default for ever.
        window_end: The column by which the view separates what the batch layer computed from what the speed layer computed. By
            default `end`, if there is such a column.

    Returns:
        A `Store` for `Pipeline.sink`.

    Examples:
        ```python
        city.sink(board, store("sqlite:///city.db", table="board", key=["district", "start"], ttl="1 year"))
        ```
    """
    return Store({"store": url, **given(locals(), "url")}, caller())


@declares
def lake(
    path: str,
    *,
    format: LakeFormat | None = None,
    partition_by: str | Sequence[str] | None = None,
    every: str | None = None,
) -> Lake:
    """Name a lake, which keeps all rows as files: a Delta table or plain Parquet.

    Args:
        path: A folder, relative to the file of the pipeline, or an address of an object store such as `s3://bucket/path`.
        format: `delta` (the default) or `parquet`.
        partition_by: The columns by which files are partitioned. `date(column)` partitions by day.
        every: How often rows are added at most, `5 s` by default. Each time makes files, and few large files are read faster
            than many small ones.

    Returns:
        A `Lake` for `Pipeline.sink`.

    Examples:
        ```python
        city.sink(clean, lake("lake/reports", partition_by="date(at)", every="1 minute"))
        ```
    """
    return Lake({"lake": path, **given(locals(), "path")}, caller())


@declares
def webhook(url: str) -> Webhook:
    """Name an address that receives alerts by POST.

    Args:
        url: The address: `http://…` or `https://…`.

    Returns:
        A `Webhook` for `Pipeline.alert`.

    Examples:
        ```python
        city.alert(board, "burst", when="count > 40", key="district", to=webhook(env("HOOK")))
        ```
    """
    return Webhook({"webhook": url}, caller())


@declares
def mail(address: str) -> Mail:
    """Name an address that receives alerts by mail, through the `smtp` server of the pipeline.

    Args:
        address: The address of the recipient.

    Returns:
        A `Mail` for `Pipeline.alert`.

    Examples:
        ```python
        city.alert(board, "burst", when="count > 40", key="district", to=mail("duty@example.org"))
        ```
    """
    return Mail({"mail": address}, caller())


@declares
def check(expect: str, *, otherwise: Otherwise | None = None, stop_above: float | str | None = None) -> Check:
    """State what must hold of every row of a source, and what happens to a row for which it does not.

    Args:
        expect: A condition in Spark's SQL. A row for which it is false or null fails.
        otherwise: What happens to a row that fails: `quarantine` (the default) writes its record to the quarantine topic, `drop`
            ignores it, `stop` stops the pipeline.
        stop_above: Stop the pipeline when a larger share of the rows fails: `0.01`, or `"1%"`.

    Returns:
        A `Check` for `Pipeline.stage`.

    Examples:
        ```python
        clean = city.stage("clean", reports, checks=check("district IS NOT NULL", otherwise="drop", stop_above="1%"))
        ```
    """
    return Check({"expect": expect, **given(locals(), "expect")}, caller())


def env(name: str) -> str:
    """Refer to an environment variable, which is read when the pipeline runs: for passwords and addresses, which no plan shows.

    Args:
        name: The name of the variable. A run reports it as a mistake if it is not set.

    Returns:
        A reference (`${NAME}`) that may stand in an address, or be a part of it.

    Examples:
        ```python
        store(f"postgresql://app:{env('PASSWORD')}@db/city", table="board")
        ```
    """
    return f"${{{name}}}"
