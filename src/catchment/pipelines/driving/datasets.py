"""What a query reads and writes: by the names that people know, and by those of OpenLineage. Passwords are never part of them.

Topics, tables and lakes have the names that OpenLineage's specification gives them, so that lineage from other tools joins ours. Stores
that the specification does not mention are named alike: Redis by its address and database, SQLite by its file.

Gaps
    A table in PostgreSQL is reported in the schema `public`: the real one depends on the user's search path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from catchment.pipelines.alerts.rule import log_topic
from catchment.pipelines.declaration.addresses import POSTGRESQL, SQLITE, expanded, without_credentials
from catchment.pipelines.declaration.specification import Alert, LakeSink, StoreSink, TopicOut
from catchment.pipelines.graph import Graph
from catchment.spark.checkpoint.files import HADOOP_NAMES

_HOST: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:,]*)(?::(?P<port>\d+))?")
_LOCALHOST: Final = "localhost"
_POSTGRESQL_PORT: Final = "5432"
_REDIS_PORT: Final = "6379"
_FILE_SYSTEMS: Final = ("hdfs", "viewfs")
_GOOGLE: Final = {"gcs": "gs"}


class Dataset(NamedTuple):
    """What is read or written, by the two names that OpenLineage has for it."""

    namespace: str
    name: str


def topic_dataset(servers: str, topic: str) -> Dataset:
    return Dataset(f"kafka://{servers.partition(',')[0]}", topic)


def table_dataset(address: str, table: str) -> Dataset:
    """A table of the store at an address with all variables expanded."""
    if address.startswith(SQLITE):
        return Dataset("file", f"{address.removeprefix(SQLITE)}#{table}")
    location, _, query = without_credentials(address).partition("?")
    scheme, _, location = location.partition("://")
    server, _, path = location.partition("/")
    options = dict(parse_qsl(query))
    if address.startswith(POSTGRESQL):
        database = options.get("dbname") or unquote(path)
        name = ".".join(filter(None, (database, "public", table)))
        return Dataset(f"postgres://{_host(server, _POSTGRESQL_PORT, options)}", name)
    if scheme == "unix":
        return Dataset(f"unix:///{path}", f"{options.get('db', '0')}.{table}")
    return Dataset(f"redis://{_host(server, _REDIS_PORT, options)}", f"{options.get('db') or path or '0'}.{table}")


def lake_dataset(address: str) -> Dataset:
    """The lake at an address with all variables expanded, which is a path or has a scheme."""
    if "://" not in address:
        return Dataset("file", address)
    scheme, _, location = without_credentials(address).partition("?")[0].partition("://")
    scheme = scheme.lower()
    bucket, _, path = location.partition("/")
    path = path.rstrip("/")
    if scheme == "file":
        return Dataset("file", f"/{path}")
    namespace = f"{(HADOOP_NAMES | _GOOGLE).get(scheme, scheme)}://{bucket}"
    # In an object store, what follows the bucket is a key, not a path.
    return Dataset(namespace, f"/{path}" if scheme in _FILE_SYSTEMS or not path else path)


def _host(server: str, default_port: str, options: dict[str, str]) -> str:
    """The first server of an address, with its port."""
    found = _HOST.match(server)
    assert found is not None, "an empty address matches as well"
    host = found["host"] or options.get("host") or _LOCALHOST
    return f"{host}:{found['port'] or options.get('port') or default_port}"


def target_name(graph: Graph, query: str) -> str | None:
    """The store or lake that a query writes to; None if it writes to topics alone."""
    match graph.target(query):
        case StoreSink() as sink:
            return f"store {without_credentials(sink.store)}"
        case LakeSink() as sink:
            return f"lake {without_credentials(sink.lake)}"
    return None


def origins(graph: Graph) -> dict[str, str]:
    """For each topic that a source stage writes, the one that it reads, which users know."""
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
