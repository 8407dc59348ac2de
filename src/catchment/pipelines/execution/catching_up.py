"""Whether a query has got as far as events were when its run began, through all the queries between them and it.

A query that begins anew may read the topic of another one that does, and that holds next to nothing at first. So where a topic
between queries ends is asked only when the query that writes it has got that far itself.
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
    """One query on its way, seen through its checkpoint and those of the queries above it."""

    def __init__(self, context: RunContext, query: str) -> None:
        """To be made before the queries of the run are started."""
        self._context = context
        self._query = query
        self._done: set[str] = set()
        self._goals: dict[str, Offsets] = {}
        self._events = _ends(context, _topics_of_events(context, query))

    def is_done(self, batch_id: int | None = None) -> bool:
        """Whether the query is there, with a batch that it is about to finish or with those that are finished."""
        return self._is_done(self._query, batch_id)

    def _is_done(self, query: str, batch_id: int | None) -> bool:
        if query not in self._done and self._has_reached(query, batch_id):
            self._done.add(query)
        return query in self._done

    def _has_reached(self, query: str, batch_id: int | None) -> bool:
        if not all(self._is_done(one, None) for one in _above(self._context, query)):
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
    """How far a query has read its topics with a batch, or with the last one that is finished."""
    notes = SparkCheckpoint.at(checkpoint)
    chosen = notes.newest_finished() if batch_id is None else batch_id
    return {} if chosen is None else read_up_to(notes.plan(chosen).ends)


def topics_read(context: RunContext, query: str) -> Iterator[str]:
    """The topics of the streams that a query reads."""
    yield from _sources(context, query)
    for name in _above(context, query):
        boundary = context.graph.boundary(name)
        assert boundary is not None, "what a query reads has a topic"
        yield boundary.topic


def topic_offsets(context: RunContext, topics: Iterable[str], when: int) -> Offsets:
    """Where the partitions of topics begin (`EARLIEST`), or end as far as nothing is undecided (`LATEST`)."""
    with Connection.read(context.connection).new_cluster() as cluster:
        partitions = [(topic, partition) for topic in topics for partition in cluster.partitions(topic)]
        return {one: at.offset for one, at in cluster.list_offsets(partitions, when, read_committed=True).items()}


def _ends(context: RunContext, topics: Iterable[str]) -> Offsets:
    """Where partitions end. Those without a record are left out: a query may have no batch to say so with."""
    wanted = list(topics)
    begins, ends = topic_offsets(context, wanted, EARLIEST), topic_offsets(context, wanted, LATEST)
    return {one: end for one, end in ends.items() if end > begins.get(one, 0)}


def _topics_of_events(context: RunContext, query: str) -> Iterator[str]:
    """Those that others write, and a query reads, or one above it."""
    yield from _sources(context, query)
    for name in _above(context, query):
        yield from _topics_of_events(context, name)


def _sources(context: RunContext, query: str) -> Iterator[str]:
    graph = context.graph
    yield from (graph.sources[one].topic for one in graph.inputs(query) if one in graph.sources)


def _above(context: RunContext, query: str) -> list[str]:
    """The queries that write what a query reads."""
    graph = context.graph
    return [one for one in graph.inputs(query) if one in graph.source_stages or one in graph.processing_stages]
