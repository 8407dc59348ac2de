"""A pipeline as Python: the same declarations as in YAML, with functions for stages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, overload

from catchment.pipelines.declaration.calls import Part, caller, declares, given
from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.declaration.parts import (
    AlertTarget,
    Arguments,
    Check,
    FunctionStage,
    InputTopic,
    Lake,
    Node,
    OutputTopic,
    Rows,
    Source,
    Stage,
    StageTopic,
    Store,
    Table,
    Topic,
)
from catchment.pipelines.declaration.specification import (
    AlertTrigger,
    Format,
    Mode,
    OnError,
    PipelineSpecification,
    Start,
)
from catchment.pipelines.errors import Location, Mistake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Pipeline:
    """A pipeline that is being declared.

    Nothing is checked where it is called. All mistakes are reported together, each with the line of its call, by `check` and by every
    command.

    Args:
        name: The name of the pipeline. Its checkpoints are in a folder of that name, and the names of its own topics begin with it.
        version: `1` by default. Raise it to start stages from scratch whose state may not change.
        parallelism: How many partitions the topics have that the pipeline creates, and how many tasks a stateful stage has. By
            default the number of Spark's cores.
        servers: The brokers: `host:port`, several separated by commas. By default `CATCHMENT_BOOTSTRAP_SERVERS` of the environment,
            or `127.0.0.1:9092`.
        kafka: Settings of the connection to the brokers, such as `{"security.protocol": "SASL_SSL"}`.
        trigger: How often a query looks for rows at most, `200 ms` by default.
        retention: How long quarantined and late records and alerts are kept in the pipeline's own topics. By default for ever.
        smtp: The mail server for alerts: `smtp://host:port` or `smtps://user:password@host`.

    Examples:
        ```python
        from catchment.pipelines import Pipeline, store, topic

        shop = Pipeline("shop", parallelism=4)
        orders = shop.source(topic("orders", schema="id string, amount int"))
        shop.sink(orders, store("sqlite:///shop.db", table="orders", key="id"))

        if __name__ == "__main__":
            shop.main()
        ```
    """

    @declares
    def __init__(
        self,
        name: str,
        *,
        version: int | None = None,
        parallelism: int | None = None,
        servers: str | None = None,
        kafka: Mapping[str, str] | None = None,
        trigger: str | None = None,
        retention: str | None = None,
        smtp: str | None = None,
    ) -> None:
        options = given(locals(), "self", "name")
        self.declared = Declared({"pipeline": name, **options}, {(): caller()})
        self.declared.tree |= {"sources": {}, "tables": {}, "stages": {}, "sinks": [], "alerts": {}}

    @declares
    def source(
        self,
        topic: InputTopic,
        *,
        name: str | None = None,
        event_time: str | None = None,
        lateness: str | None = None,
        ahead: str | None = None,
        start: Start | None = None,
        format: Format | None = None,
        schema: str | None = None,
        registry: str | None = None,
        message: str | None = None,
        delimiter: str | None = None,
        on_error: OnError | None = None,
    ) -> Source:
        """Read a topic as a stream of events.

        Args:
            topic: The topic, from `topic`.
            name: The name of the source. By default that of the topic, with `_` for dots: `shop.orders` becomes `shop_orders`.
            event_time: The column of type timestamp that says when an event happened. Given together with `lateness`.
            lateness: How much later than the newest event an event may arrive, such as `20 seconds`. Later ones go to the topic
                `<pipeline>.late`. Given together with `event_time`.
            ahead: How far the time of an event may be ahead of its record's timestamp, `10 minutes` by default. An event further
                ahead has a wrong clock and goes to the quarantine.
            start: Where the first run starts to read: `earliest` (the default) or `latest`.
            format: As of `topic`, which it replaces.
            schema: As of `topic`, which it replaces.
            registry: As of `topic`, which it replaces.
            message: As of `topic`, which it replaces.
            delimiter: As of `topic`, which it replaces.
            on_error: As of `topic`, which it replaces.

        Returns:
            The source, for stages, sinks and alerts to read.

        Examples:
            ```python
            reports = city.source(
                topic("reports", schema="id string, district string, at timestamp", on_error="quarantine"),
                event_time="at",
                lateness="20 seconds",
            )
            ```
        """
        options = given(locals(), "self", "topic", "name")
        return Source(self._add_input("sources", topic, name, options))

    @declares
    def table(self, topic: InputTopic, *, key: str | Sequence[str], name: str | None = None) -> Table:
        """Read a compacted topic as a table: the last value of each key, which stages join with streams.

        Args:
            topic: The topic, from `topic`.
            key: The columns that identify a row. A record without a value deletes the row of its key.
            name: The name of the table. By default that of the topic, with `_` for dots.

        Returns:
            The table, for stages to read.

        Examples:
            ```python
            crews = city.table(topic("crews", schema="district string, crew int"), key="district")
            ```
        """
        return Table(self._add_input("tables", topic, name, given({"key": key})))

    @overload
    def stage(
        self,
        name: str,
        *inputs: Node,
        sql: str | None = None,
        function: Callable[..., DataFrame] | None = None,
        dedupe: str | Sequence[str] | None = None,
        checks: Check | Sequence[Check] | None = None,
        mode: Mode | None = None,
        key: str | Sequence[str] | None = None,
        event_time: str | None = None,
        lateness: str | None = None,
        to: OutputTopic | StageTopic | None = None,
    ) -> Stage: ...

    @overload
    def stage(
        self,
        name: Node,
        *inputs: Node,
        dedupe: str | Sequence[str] | None = None,
        checks: Check | Sequence[Check] | None = None,
        mode: Mode | None = None,
        key: str | Sequence[str] | None = None,
        event_time: str | None = None,
        lateness: str | None = None,
        to: OutputTopic | StageTopic | None = None,
    ) -> Callable[[Callable[Arguments, Rows]], FunctionStage[Arguments, Rows]]: ...

    @declares
    def stage(
        self,
        name: str | Node,
        *inputs: Node,
        sql: str | None = None,
        function: Callable[..., DataFrame] | None = None,
        dedupe: str | Sequence[str] | None = None,
        checks: Check | Sequence[Check] | None = None,
        mode: Mode | None = None,
        key: str | Sequence[str] | None = None,
        event_time: str | None = None,
        lateness: str | None = None,
        to: OutputTopic | StageTopic | None = None,
    ) -> Stage | Callable[[Callable[Arguments, Rows]], FunctionStage[Arguments, Rows]]:
        """Compute rows from rows, by SQL or by a function; a stage with neither only cleans.

        With a name first, it declares the stage. With an input first, it is a decorator for a function that takes a DataFrame for each
        input and returns one; the function gives the stage its name and can still be called.

        Args:
            name: The name of the stage; or, for a decorator, the first input.
            *inputs: The sources, tables and stages that it reads. SQL without inputs reads the tables that it names.
            sql: What it computes, in Spark's SQL, with its inputs as tables. A name with `-` stands in backticks.
            function: What it computes, as a function that takes a DataFrame for each input and returns one.
            dedupe: The columns by which an event is the same as an earlier one that arrived within the lateness: it is dropped. For a
                stage that reads one source.
            checks: What must hold of every row, from `check`. For a stage that reads one source.
            mode: `append` (the default) gives each row once, and an aggregate of a window when the window is closed. `update` gives
                rows that changed, at once.
            key: The columns that identify a row of the result: a later row replaces an earlier one. `update` needs it.
            event_time: The column of the result that later stages take as the time of its rows.
            lateness: How much later than the newest a row of the result may arrive. By default as late as what the stage reads.
            to: The topic that it writes, from `topic`. By default `<pipeline>.<stage>` if another stage reads it, and none if not.

        Returns:
            The stage, for later stages, sinks and alerts to read; or, with an input first, a decorator that returns it.

        Examples:
            ```python
            clean = city.stage("clean", reports, dedupe="id", checks=check("district IS NOT NULL"))
            calls = city.stage("calls", clean, sql="SELECT district, at FROM clean WHERE kind = 'call'")

            @city.stage(clean, crews, mode="update", key="district")
            def board(clean: DataFrame, crews: DataFrame) -> DataFrame:
                return clean.groupBy("district").count().join(crews, "district", "left")
            ```
        """
        options = given(locals(), "self", "name", "inputs")
        location = caller()
        if isinstance(name, str):
            self._add_stage(name, inputs, options, location)
            return Stage(name)

        def decorate(function: Callable[Arguments, Rows]) -> FunctionStage[Arguments, Rows]:
            self._add_stage(function.__name__, (name, *inputs), options | {"function": function}, location)
            return FunctionStage(function, function.__name__)

        return decorate

    @declares
    def sink(self, node: Source | Stage, to: Store | Lake | OutputTopic, *, name: str | None = None) -> None:
        """Write the rows of a source or a stage to a store, a lake or a topic, in a query of its own.

        Args:
            node: The source or stage whose rows are written.
            to: Where they are written: a `store`, a `lake` or a `topic`.
            name: The name of its query and checkpoint. By default it consists of the names of the stage and of what is written.

        Examples:
            ```python
            city.sink(board, store("sqlite:///city.db", table="board"))
            city.sink(clean, lake("lake/reports", partition_by="date(at)"))
            city.sink(board, topic("board.changes", key="district"), name="changes")
            ```
        """
        is_read = self._holds("a sink reads a source or a stage", [node], Node)
        is_written = self._holds("a sink writes to a store, a lake or a topic", [to], Store, Lake, Topic)
        if is_read and is_written:
            self.declared.locations["sinks", len(self.declared.tree["sinks"])] = caller()
            self.declared.tree["sinks"].append({"from": node.name, **to.declared, **given({"name": name})})

    @declares
    def alert(
        self,
        node: Source | Stage,
        name: str,
        *,
        key: str | Sequence[str],
        to: AlertTarget | Sequence[AlertTarget],
        when: str | None = None,
        absent_for: str | None = None,
        cooldown: str | None = None,
        message: str | None = None,
        trigger: AlertTrigger | None = None,
    ) -> None:
        """Respond to rows that satisfy a condition, or to keys that have become silent.

        Args:
            node: The source or stage that it watches.
            name: The name of the alert.
            key: The columns by which alerts are distinguished.
            to: Who receives it: a `topic`, a `webhook`, a `mail`, or several of them.
            when: The condition on a row, in Spark's SQL. Either this or `absent_for`.
            absent_for: How long a key must have had no rows, such as `5 minutes`. Either this or `when`.
            cooldown: How long no other alert of the same key follows. By default `0 ms`.
            message: What people read, with columns in braces: `{district}: {count} reports`.
            trigger: `micro-batch` (the default), or `realtime` for milliseconds where Spark allows it.

        Examples:
            ```python
            city.alert(board, "burst", when="count > 40 AND crew < 3", key="district", cooldown="5 minutes",
                       message="{district}: {count} reports", to=[topic("dispatch"), webhook(env("HOOK"))])
            ```
        """
        options = given(locals(), "self", "node", "name", "to")
        targets = _listed(to)
        is_read = self._holds("an alert reads a source or a stage", [node], Node)
        is_sent = self._holds("an alert goes to a topic, a webhook or a mail address", targets, Topic, AlertTarget)
        if is_read and is_sent:
            for number, target in enumerate(targets):
                self.declared.locations["alerts", name, "to", number] = target.location
            self._add("alerts", name, {"from": node.name, "to": [one.declared for one in targets], **options})

    @property
    def folder(self) -> FilePath:
        """The folder of the file that declares the pipeline: paths are relative to it."""
        location = self.declared.location(())
        assert location is not None, "every pipeline is declared somewhere"
        return FilePath(location.file).parent

    @property
    def mistakes(self) -> list[Mistake]:
        """What is known to be wrong before `check` looks at the whole."""
        return self.declared.mistakes

    def check(self) -> PipelineSpecification:
        """Check the whole pipeline.

        Returns:
            The specification that plans and runs are made of.

        Raises:
            Mistakes: All that is wrong, each with its file and line.
        """
        return self.declared.check(self.folder)

    def main(self) -> None:
        """Run this file as `catchment pipeline` does: `python city.py --available-now` runs it, `python city.py plan` plans it.

        The first argument is the command, `run` by default. The process is replaced by that of the command, and this never returns.
        """
        arguments = sys.argv[1:]
        if arguments[:1] in (["--help"], ["-h"]):
            verb, file, rest = "--help", [], arguments[1:]
        else:
            is_verb = bool(arguments) and not arguments[0].startswith("-")
            verb, rest = (arguments[0], arguments[1:]) if is_verb else ("run", arguments)
            file = [os.path.abspath(sys.argv[0])]
        command = [sys.executable, "-m", "catchment.cli", "pipeline", verb, *file, *rest]
        sys.stdout.flush()
        os.execv(sys.executable, command)

    def _add_input(self, kind: str, topic: InputTopic, name: str | None, options: dict[str, Any]) -> str:
        if not isinstance(topic, Topic):
            raise TypeError(f"{kind} are read from a topic, not from {_shown(topic)}")
        self.mistakes.extend(topic.mistakes)
        name = name or topic.default_name
        self._add(kind, name, topic.declared | options)
        return name

    def _add_stage(self, name: str, inputs: Sequence[Node], options: dict[str, Any], location: Location) -> None:
        to, checks = options.pop("to", None), _listed(options.pop("checks", None))
        is_read = self._holds("a stage reads sources, tables and stages", inputs, Node)
        declared = {"from": [one.name for one in inputs] if is_read else [], **options}
        if to is not None and self._holds("a stage writes to a topic", [to], Topic):
            declared["to"] = to.declared
            self.declared.locations["stages", name, "to"] = to.location
        if self._holds("the checks of a stage are made by check()", checks, Check):
            declared["checks"] = [one.declared for one in checks]
            for number, one in enumerate(checks):
                self.declared.locations["stages", name, "checks", number] = one.location
        self._add("stages", name, declared, location)

    def _add(self, kind: str, name: str, declared: dict[str, Any], location: Location | None = None) -> None:
        location = location or caller()
        if name in self.declared.tree[kind]:
            remedy = "; name one of them with name=" if kind in ("sources", "tables") else ""
            self.mistakes.append(Mistake(location, f"{kind}.{name} is given twice{remedy}"))
        self.declared.tree[kind][name] = declared
        self.declared.locations[kind, name] = location

    def _holds(self, rule: str, values: Sequence[object], *kinds: type) -> bool:
        """Whether all values are of these kinds; a mistake for each that is not. Mistakes inside of them become the pipeline's."""
        wrong = [one for one in values if not isinstance(one, kinds)]
        self.mistakes.extend(Mistake(caller(), f"{rule}, not {_shown(one)}") for one in wrong)
        for one in values:
            self.mistakes.extend(one.mistakes if isinstance(one, Part) else ())
        return not wrong


def _listed(parts: Any) -> list[Any]:
    """One part, several or none, as a list."""
    return [parts] if isinstance(parts, Part) or not isinstance(parts, Iterable | None) else list(parts or ())


def _shown(value: object) -> str:
    return f"{value.name} ({type(value).__name__})" if isinstance(value, Node) else f"a {type(value).__name__}"
