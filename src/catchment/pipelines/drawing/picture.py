"""What a picture of a pipeline shows: its topics, tables, stages and outlets, and what flows where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catchment.pipelines.addresses import without_credentials
from catchment.pipelines.graph import Graph, Intake, Outlet, Step
from catchment.pipelines.naming import alert_name
from catchment.pipelines.specification import Alert, LakeSink, Mail, StoreSink, TopicOut, TopicSink, Webhook

Kind = Literal["topic", "table", "intake", "step", "store", "lake", "alert"]


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
    """A graph without circles. Nodes come after those that flow into them."""

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
        for intake in graph.intakes.values():
            self._add(_intake(intake), [self._topic(intake.source_name)])
        for step in graph.sorted_steps:
            self._add(_step(step), [self._input(one) for one in step.inputs])
        for outlet in graph.outlets.values():
            self._add(_outlet(outlet), [self._input(outlet.reads)])

    def _add(self, node: Node, above: list[str]) -> None:
        self.nodes[node.name] = node
        self.edges += [(one, node.name) for one in above]

    def _input(self, name: str) -> str:
        if name in self._graph.tables:
            intake = next((one.name for one in self._graph.table_intakes.values() if one.table_name == name), None)
            node = Node(f"table {name}", "table", name, (f"topic {self._graph.tables[name].topic}",), intake)
            self.nodes.setdefault(node.name, node)
            return node.name
        return self._topic(name) if name in self._graph.sources else name

    def _topic(self, source: str) -> str:
        declared = self._graph.sources[source]
        node = Node(f"topic {declared.topic}", "topic", declared.topic, (declared.format,))
        self.nodes.setdefault(node.name, node)
        return node.name


def _intake(intake: Intake) -> Node:
    details = []
    if intake.dedupe:
        details.append(f"once by {', '.join(intake.dedupe)}")
    if intake.checks:
        details.append(f"{len(intake.checks)} check{'s' if len(intake.checks) > 1 else ''}")
    if intake.source.lateness is not None:
        details.append(f"{length(intake.source.lateness)} late")
    return Node(intake.name, "intake", intake.name, (" · ".join(details), f"→ {intake.boundary.topic}"), intake.name)


def _step(step: Step) -> Node:
    how = "SQL" if step.stage.sql is not None else "Python" if step.stage.function is not None else "as it is"
    mode = f"{step.stage.mode} by {', '.join(step.stage.key)}" if step.stage.key else step.stage.mode
    to = (f"→ {step.boundary.topic}",) if step.boundary is not None else ()
    return Node(step.name, "step", step.name, (f"{how} · {mode}", *to), step.name if step.boundary else None)


def _outlet(outlet: Outlet) -> Node:
    query = outlet.query
    match outlet.target:
        case StoreSink() as sink:
            return Node(query, "store", sink.table, (without_credentials(sink.store),), query)
        case LakeSink() as sink:
            return Node(query, "lake", without_credentials(sink.lake), (sink.format, *sink.partition_by), query)
        case TopicSink() as sink:
            return Node(query, "topic", sink.topic, ("json",), query)
        case Alert() as alert:
            name = alert_name(outlet.name)
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
