"""Where the rows of a query go, in a form in which the same target is recognised under another spelling."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from catchment.client.errors import SettingsError
from catchment.pipelines.declaration.addresses import expanded, without_credentials
from catchment.pipelines.declaration.specification import Alert, LakeSink, StoreSink, TopicSink
from catchment.pipelines.graph import Graph


@dataclass(frozen=True)
class OwnedTarget:
    """A table, a lake or a topic."""

    kind: Literal["table", "lake", "topic"]
    name: str
    """As its author knows it: `lake lake/reports`."""
    digest: str
    """The same for the same target, however it is written. Addresses have secrets in them, so they are not kept themselves."""
    has_versions: bool = False
    """Whether a query that starts from scratch writes beside the old rows: a version of a table, or of a topic between queries."""
    is_shared: bool = False
    """Whether other pipelines may write to it as well."""
    topic: str | None = None


def topic_target(topic: str, *, is_boundary: bool) -> OwnedTarget:
    """A topic. One that is no boundary may have other writers, as any topic of Kafka."""
    return OwnedTarget("topic", f"topic {topic}", digest("topic", topic), is_boundary, not is_boundary, topic)


def owned_sink(sink: StoreSink | LakeSink | TopicSink, folder: Path) -> OwnedTarget:
    """The table, the lake or the topic of a sink."""
    match sink:
        case StoreSink():
            name = f"table {sink.table} of {without_credentials(sink.store)}"
            return OwnedTarget(
                "table", name, digest("store", _address(sink.store, folder), sink.table), has_versions=True
            )
        case LakeSink():
            return OwnedTarget(
                "lake", f"lake {without_credentials(sink.lake)}", digest("lake", _address(sink.lake, folder))
            )
        case TopicSink():
            return topic_target(sink.topic, is_boundary=False)


def written_targets(graph: Graph, folder: Path) -> Iterator[tuple[str, OwnedTarget]]:
    """The queries of a pipeline that write rows, each with its target. Alerts have none: their log says what has fired."""
    for query in graph.table_quarantines:
        yield query, topic_target(graph.quarantine, is_boundary=False)
    for query in (*graph.source_stages, *graph.processing_stages):
        if (boundary := graph.boundary(query)) is not None:
            yield query, topic_target(boundary.topic, is_boundary=True)
    for query, sink in graph.sinks_by_query.items():
        if not isinstance(sink.target, Alert):
            yield query, owned_sink(sink.target, folder)


def topics_of(graph: Graph, query: str) -> Iterator[str]:
    """The topics that a query reads and writes rows of, but for what is quarantined."""
    for name in graph.inputs(query):
        if name in graph.tables:
            yield graph.tables[name].topic
        elif name in graph.sources:
            yield graph.sources[name].topic
        elif (boundary := graph.boundary(name)) is not None:
            yield boundary.topic
    if (query in graph.source_stages or query in graph.processing_stages) and (
        written := graph.boundary(query)
    ) is not None:
        yield written.topic


def digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _address(address: str, folder: Path) -> str:
    """The one form of an address. Who writes there is no part of it."""
    try:
        text = without_credentials(expanded(address, folder))
    except (KeyError, SettingsError):
        # A plan may be made where its variables are not set, and says so; a run may not.
        return address
    return text.rstrip("/") if "://" in text else str(Path(text).resolve())
