"""What a picture of a pipeline shows: its topics, tables, stages and sinks, and what flows where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catchment.pipelines.declaration.addresses import without_credentials
from catchment.pipelines.declaration.specification import Alert, LakeSink, Mail, StoreSink, TopicOut, TopicSink, Webhook
from catchment.pipelines.graph import Graph, ProcessingStage, Sink, SourceStage
from catchment.pipelines.naming import alert_name

Kind = Literal["topic", "table", "source-stage", "processing-stage", "store", "lake", "alert"]


@dataclass(frozen=True)
class Node:
    """Something in the picture."""

    name: str
    kind: Kind
    title: str
    details: tuple[str, ...] = ()
    query: str | None = None
    """The query that it is, if it is one."""


@dataclass(frozen=True)
class Picture:
    """A graph without cycles. Nodes come after those that flow into them."""

    nodes: dict[str, Node]
    edges: tuple[tuple[str, str], ...]

    def above(self, name: str) -> list[str]:
        return [start for start, end in self.edges if end == name]

    def below(self, name: str) -> list[str]:
        return [end for start, end in self.edges if start == name]


def picture(graph: Graph) -> Picture:
    """The picture of a pipeline."""
    drawing = _Drawing(graph)
    return Picture(drawing.nodes, tuple(dict.fromkeys(drawing.edges)))


class _Drawing:
    def __init__(self, graph: Graph) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: list[tuple[str, str]] = []
        self._graph = graph
        for source_stage in graph.source_stages.values():
            self._add(_source_stage(source_stage), [self._topic(source_stage.source_name)])
        for stage in graph.sorted_stages:
            self._add(_stage(stage), [self._input(one) for one in stage.inputs])
        for sink in graph.sinks.values():
            self._add(_sink(sink), [self._input(sink.reads)])

    def _add(self, node: Node, above: list[str]) -> None:
        self.nodes[node.name] = node
        self.edges += [(one, node.name) for one in above]

    def _input(self, name: str) -> str:
        if name in self._graph.tables:
            source_stage = next(
                (one.name for one in self._graph.table_quarantines.values() if one.table_name == name), None
            )
            node = Node(f"table {name}", "table", name, (f"topic {self._graph.tables[name].topic}",), source_stage)
            self.nodes.setdefault(node.name, node)
            return node.name
        return self._topic(name) if name in self._graph.sources else name

    def _topic(self, source: str) -> str:
        declared = self._graph.sources[source]
        node = Node(f"topic {declared.topic}", "topic", declared.topic, (declared.format,))
        self.nodes.setdefault(node.name, node)
        return node.name


def _source_stage(source_stage: SourceStage) -> Node:
    details = []
    if source_stage.dedupe:
        details.append(f"once by {', '.join(source_stage.dedupe)}")
    if source_stage.checks:
        details.append(f"{len(source_stage.checks)} check{'s' if len(source_stage.checks) > 1 else ''}")
    if source_stage.source.lateness is not None:
        details.append(f"{length(source_stage.source.lateness)} late")
    return Node(
        source_stage.name,
        "source-stage",
        source_stage.name,
        (" · ".join(details), f"→ {source_stage.boundary.topic}"),
        source_stage.name,
    )


def _stage(stage: ProcessingStage) -> Node:
    how = (
        "SQL"
        if stage.declaration.sql is not None
        else "Python"
        if stage.declaration.function is not None
        else "as it is"
    )
    mode = (
        f"{stage.declaration.mode} by {', '.join(stage.declaration.key)}"
        if stage.declaration.key
        else stage.declaration.mode
    )
    to = (f"→ {stage.boundary.topic}",) if stage.boundary is not None else ()
    return Node(
        stage.name, "processing-stage", stage.name, (f"{how} · {mode}", *to), stage.name if stage.boundary else None
    )


def _sink(sink: Sink) -> Node:
    query = sink.query
    match sink.target:
        case StoreSink() as target:
            return Node(query, "store", target.table, (without_credentials(target.store),), query)
        case LakeSink() as target:
            return Node(query, "lake", without_credentials(target.lake), (target.format, *target.partition_by), query)
        case TopicSink() as target:
            return Node(query, "topic", target.topic, ("json",), query)
        case Alert() as alert:
            name = alert_name(sink.name)
            condition = alert.when or f"silent for {length(alert.absent_for or 0)}"
            return Node(query, "alert", name, (condition, f"→ {', '.join(map(_target, alert.to))}"), query)


def _target(target: TopicOut | Webhook | Mail) -> str:
    match target:
        case TopicOut():
            return target.topic
        case Webhook():
            return "webhook"
        case Mail():
            return "mail"


def length(length_ms: int) -> str:
    """A length of time in its largest whole unit."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if length_ms >= unit_ms and length_ms % unit_ms == 0:
            return f"{length_ms // unit_ms} {unit}"
    return f"{length_ms} ms"
