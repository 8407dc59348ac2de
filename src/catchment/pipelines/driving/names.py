"""What people call the things that a pipeline reads and writes, in its status and its lineage; passwords are never part of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catchment.pipelines.alerts.rule import log_topic
from catchment.pipelines.declaration.addresses import expanded, without_credentials
from catchment.pipelines.declaration.specification import Alert, LakeSink, StoreSink, TopicOut
from catchment.pipelines.driving.datasets import Dataset, lake_dataset, table_dataset, topic_dataset
from catchment.pipelines.graph import Graph


def target_name(graph: Graph, query: str) -> str | None:
    """The store that a query waits for when it is away; None if it writes to topics alone."""
    match graph.target(query):
        case StoreSink() as sink:
            return f"store {without_credentials(sink.store)}"
        case LakeSink() as sink:
            return f"lake {without_credentials(sink.lake)}"
    return None


def origins(graph: Graph) -> dict[str, str]:
    """For each topic that a source stage writes, the one that it reads: the one that people know."""
    return {source_stage.boundary.topic: source_stage.source.topic for source_stage in graph.source_stages.values()}


def inputs_of(graph: Graph, query: str, servers: str) -> list[Dataset]:
    """The topics that a query reads, tables too."""
    return [topic_dataset(servers, topic) for topic in dict.fromkeys(_topics_read(graph, query))]


def outputs_of(graph: Graph, query: str, servers: str, folder: Path) -> list[Dataset]:
    """What a query writes; `folder` is what paths of stores and lakes are relative to."""
    if query in graph.source_stages:
        boundary = graph.source_stages[query].boundary
        return [topic_dataset(servers, one) for one in (boundary.topic, graph.quarantine, graph.late)]
    if query in graph.table_quarantines:
        return [topic_dataset(servers, graph.quarantine)]
    if query in graph.processing_stages:
        boundary_of_stage = graph.boundary(query)
        return [topic_dataset(servers, boundary_of_stage.topic)] if boundary_of_stage else []
    match graph.sinks_by_query[query].target:
        case StoreSink() as sink:
            return [table_dataset(expanded(sink.store, folder), sink.table), topic_dataset(servers, graph.quarantine)]
        case LakeSink() as sink:
            return [lake_dataset(expanded(sink.lake, folder))]
        case Alert() as alert:
            topics = [one.topic for one in alert.to if isinstance(one, TopicOut)]
            return [topic_dataset(servers, one) for one in (*topics, log_topic(graph.specification.pipeline))]
        case TopicOut() as sink:
            return [topic_dataset(servers, sink.topic)]
    return []


def _topics_read(graph: Graph, query: str) -> Iterator[str]:
    for name in graph.inputs(query):
        if name in graph.tables:
            yield graph.tables[name].topic
        elif name in graph.sources:
            yield graph.sources[name].topic
        elif (boundary := graph.boundary(name)) is not None:
            yield boundary.topic
