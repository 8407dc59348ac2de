"""Whether a query has caught up with the events that were there when its run began, through all queries upstream of it.

A query that starts from scratch may read the topic of another one that does, which holds next to nothing at first. So the end of a topic
between queries is read only once the query that writes it has caught up itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from catchment.client.offsets import EARLIEST, LATEST
from catchment.pipelines.execution.run_context import RunContext
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.options.connection import Connection
from catchment.spark.source.noted_offsets import read_up_to
from catchment.spark.source.positions import Offsets


class CatchingUp:
    """The catch-up of one query, read from its checkpoint and those of the queries upstream."""

    def __init__(self, context: RunContext, query: str) -> None:
        """Create it before the queries of the run are started."""
        self._context = context
        self._query = query
        self._done: set[str] = set()
        self._goals: dict[str, Offsets] = {}
        self._events = _ends(context, _source_topics(context, query))

    def is_done(self, batch_id: int | None = None) -> bool:
        """Whether the query has caught up, with a batch that it is about to finish or with its finished ones."""
        return self._is_done(self._query, batch_id)

    def _is_done(self, query: str, batch_id: int | None) -> bool:
        if query not in self._done and self._has_reached(query, batch_id):
            self._done.add(query)
        return query in self._done

    def _has_reached(self, query: str, batch_id: int | None) -> bool:
        if not all(self._is_done(one, None) for one in _upstream(self._context, query)):
            return False
        if query not in self._goals:
            self._goals[query] = self._goal(query)
        reached = read_by(self._context.checkpoint(query), batch_id)
        return all(reached.get(partition, 0) >= offset for partition, offset in self._goals[query].items())

    def _goal(self, query: str) -> Offsets:
        events = set(_sources(self._context, query))
        between = (topic for topic in topics_read(self._context, query) if topic not in events)
        return {one: end for one, end in self._events.items() if one[0] in events} | _ends(self._context, between)


def read_by(checkpoint: str, batch_id: int | None = None) -> Offsets:
    """The end offsets of a query's batch, or of its last finished one."""
    notes = SparkCheckpoint.at(checkpoint)
    chosen = notes.newest_finished() if batch_id is None else batch_id
    return {} if chosen is None else read_up_to(notes.plan(chosen).ends)


def topics_read(context: RunContext, query: str) -> Iterator[str]:
    """The topics of the streams that a query reads."""
    yield from _sources(context, query)
    for name in _upstream(context, query):
        boundary = context.graph.boundary(name)
        assert boundary is not None, "every stage that a query reads has a topic"
        yield boundary.topic


def topic_offsets(context: RunContext, topics: Iterable[str], when: int) -> Offsets:
    """The start offsets of the partitions of topics (`EARLIEST`), or their last stable offsets (`LATEST`)."""
    with Connection.read(context.connection).new_cluster() as cluster:
        partitions = [(topic, partition) for topic in topics for partition in cluster.partitions(topic)]
        return {one: at.offset for one, at in cluster.list_offsets(partitions, when, read_committed=True).items()}


def _ends(context: RunContext, topics: Iterable[str]) -> Offsets:
    """The end offsets of partitions. Empty partitions are left out: a query may never have a batch that reads them."""
    wanted = list(topics)
    begins, ends = topic_offsets(context, wanted, EARLIEST), topic_offsets(context, wanted, LATEST)
    return {one: end for one, end in ends.items() if end > begins.get(one, 0)}


def _source_topics(context: RunContext, query: str) -> Iterator[str]:
    """The source topics of a query and of the queries upstream of it."""
    yield from _sources(context, query)
    for name in _upstream(context, query):
        yield from _source_topics(context, name)


def _sources(context: RunContext, query: str) -> Iterator[str]:
    graph = context.graph
    yield from (graph.sources[one].topic for one in graph.inputs(query) if one in graph.sources)


def _upstream(context: RunContext, query: str) -> list[str]:
    """The queries that write what a query reads."""
    graph = context.graph
    return [one for one in graph.inputs(query) if one in graph.source_stages or one in graph.processing_stages]
