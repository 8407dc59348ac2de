"""What people call the things that a pipeline reads and writes, in its status and its lineage; passwords are never part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from catchment.pipelines.addresses import POSTGRESQL, REDIS
from catchment.pipelines.graph import Graph
from catchment.pipelines.specification import Alert, LakeSink, StoreSink, TopicOut

_ADDRESS: Final = re.compile(r"([A-Za-z][\w+.-]*://)([^?]*)(?:\?(.*))?", re.DOTALL)
_SECRET: Final = re.compile(r"pass|pwd|user|secret|token|key|credential|sig", re.IGNORECASE)


class Dataset(NamedTuple):
    """A topic, a table of a store, or a lake, named as OpenLineage names it."""

    namespace: str
    name: str


def without_credentials(address: str) -> str:
    """An address without users and passwords, before the host or among the options. What is in doubt is left out."""
    if (parts := _ADDRESS.fullmatch(address)) is None:
        return address
    scheme, place, query = parts[1], parts[2], parts[3] or ""
    if "@" in query:
        return f"{scheme}…"
    if scheme in (*POSTGRESQL, *REDIS):
        # A password may hold an @ or a slash that should have been escaped.
        place = place.rpartition("@")[2]
    else:
        host, slash, path = place.partition("/")
        place = host.rpartition("@")[2] + slash + path
    options = "&".join(one for one in query.split("&") if one and not _SECRET.search(one.partition("=")[0]))
    return f"{scheme}{place}?{options}" if options else f"{scheme}{place}"


def target_name(graph: Graph, query: str) -> str | None:
    """The store that a query waits for when it is away; None if it writes to topics alone."""
    match graph.target(query):
        case StoreSink() as sink:
            return f"store {without_credentials(sink.store)}"
        case LakeSink() as sink:
            return f"lake {without_credentials(sink.lake)}"
    return None


def origins(graph: Graph) -> dict[str, str]:
    """For each topic that an intake writes, the one that it reads: the one that people know."""
    return {intake.boundary.topic: intake.source.topic for intake in graph.intakes.values()}


def inputs_of(graph: Graph, query: str, servers: str) -> list[Dataset]:
    """The topics that a query reads, tables too."""
    return [_topic(servers, topic) for topic in dict.fromkeys(_topics_read(graph, query))]


def outputs_of(graph: Graph, query: str, servers: str) -> list[Dataset]:
    """What a query writes."""
    if query in graph.intakes:
        boundary = graph.intakes[query].boundary
        return [_topic(servers, one) for one in (boundary.topic, graph.quarantine, graph.late)]
    if query in graph.table_intakes:
        return [_topic(servers, graph.quarantine)]
    if query in graph.steps:
        boundary_of_step = graph.boundary(query)
        return [_topic(servers, boundary_of_step.topic)] if boundary_of_step else []
    match graph.outlets[query.removeprefix("outlet-")].target:
        case StoreSink() as sink:
            return [Dataset(without_credentials(sink.store), sink.table)]
        case LakeSink() as sink:
            return [Dataset("file", without_credentials(sink.lake))]
        case Alert() as alert:
            topics = [one.topic for one in alert.to if isinstance(one, TopicOut)]
            return [_topic(servers, one) for one in (*topics, f"{graph.specification.pipeline}.alerts")]
        case TopicOut() as sink:
            return [_topic(servers, sink.topic)]
    return []


def _topics_read(graph: Graph, query: str) -> Iterator[str]:
    for name in graph.inputs(query):
        if name in graph.tables:
            yield graph.tables[name].topic
        elif name in graph.sources:
            yield graph.sources[name].topic
        elif (boundary := graph.boundary(name)) is not None:
            yield boundary.topic


def _topic(servers: str, topic: str) -> Dataset:
    return Dataset(f"kafka://{servers.partition(',')[0]}", topic)
