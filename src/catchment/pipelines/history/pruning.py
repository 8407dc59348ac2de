"""What earlier versions of a pipeline have left behind, and its removal: checkpoints, versions of tables, topics between queries.

Going back is lowering the version: whatever the file's version, or one of the last before it, would go on with is needed and
stays. So does what a table shows. The topics hold events, and others may read them, so they go only if asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from catchment.client.errors import ClientError
from catchment.pipelines.declaration.addresses import expanded
from catchment.pipelines.declaration.specification import StoreSink
from catchment.pipelines.driving.supervision.run_file import AlreadyRunning, RunLock
from catchment.pipelines.execution.topics import TopicAdmin
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.planning import kept_with_checkpoints
from catchment.pipelines.planning.signature import Kept
from catchment.pipelines.stores.store import RealTimeStore
from catchment.pipelines.stores.store_opening import open_store

_REMOVED: Final = ".removed"
"""A checkpoint is given another name before it is deleted: one that is half deleted is never gone on with."""


class Leftover(NamedTuple):
    """A thing that no version needs which one may go back to."""

    kind: Literal["table", "checkpoint", "topic"]
    name: str
    version: int


def prune(
    graph: Graph, folder: Path, home: Home, *, keeps: int, topics: TopicAdmin | None, is_dry_run: bool
) -> list[Leftover]:
    """Delete what is not needed to run the file's version or one of the `keeps` before it; what that was."""
    if not home.plan_file.exists():
        raise ClientError(f"pipeline {home.pipeline} never ran in {home.root}", "Check the name, or name its --home.")
    with ExitStack() as stack:
        if not is_dry_run:
            stack.callback(_lock(home).close)
        kept = kept_with_checkpoints(home) or Kept(pipeline=home.pipeline)
        stores = {
            one.query: stack.enter_context(open_store(expanded(sink.store, folder), sink.table, sink.ttl))
            for one in graph.sinks.values()
            if isinstance(sink := one.target, StoreSink)
        }
        past = _Past(graph, home, kept, keeps, stores)
        found = [*past.tables(), *past.checkpoints(), *(past.topics(topics) if topics else ())]
        if not is_dry_run:
            past.clear()
            for one in found:
                past.remove(one, topics)
        return found


def _lock(home: Home) -> RunLock:
    try:
        return RunLock(home)
    except AlreadyRunning as error:
        raise ClientError(str(error), f"Stop it first: catchment pipeline stop {home.pipeline}.") from error


@dataclass(frozen=True)
class _Past:
    """A pipeline that does not run, with the tables that it keeps."""

    graph: Graph
    home: Home
    kept: Kept
    keeps: int
    stores: dict[str, RealTimeStore]

    def tables(self) -> Iterator[Leftover]:
        """Versions of tables before the one that is shown. A later one may be in the making; one that never was shown is no way back."""
        for query, store in self.stores.items():
            live = self._live(query) or 0
            before = [one for one in store.versions() if one.version < live]
            shown = [one.version for one in before if one.was_shown]
            stay = {*shown[max(0, len(shown) - self.keeps) :], *self._needed(query)}
            yield from (Leftover("table", query, one.version) for one in before if one.version not in stay)

    def checkpoints(self) -> Iterator[Leftover]:
        """Spark's notes of earlier versions."""
        for query, made in self.kept.queries.items():
            needed = self._needed(query)
            for one in made:
                if one.checkpoint_version not in needed:
                    yield Leftover("checkpoint", query, one.checkpoint_version)

    def topics(self, admin: TopicAdmin) -> Iterator[Leftover]:
        """Topics that queries wrote to in versions that are not needed, as far as they are there."""
        there = admin.names()
        specification = self.graph.specification
        in_use = {one.topic for one in (*specification.sources.values(), *specification.tables.values())}
        for query in self.kept.queries:
            if query not in self.graph.source_stages and query not in self.graph.processing_stages:
                continue
            needed = self._needed(query)
            for version in range(1, max(needed)):
                boundary = Graph(specification, {query: version}).boundary(query)
                if version not in needed and boundary is not None and boundary.topic in there - in_use:
                    yield Leftover("topic", boundary.topic, version)

    def clear(self) -> None:
        """Finish what an earlier removal has begun."""
        for path in self.home.folder.glob(f"checkpoints/*{_REMOVED}"):
            shutil.rmtree(path)

    def remove(self, leftover: Leftover, admin: TopicAdmin | None) -> None:
        """Delete one; what is cut short is found again the next time."""
        match leftover.kind:
            case "table":
                self.stores[leftover.name].drop_version(leftover.version)
            case "checkpoint":
                for path in self.home.checkpoints(leftover.name, leftover.version):
                    shutil.rmtree(path.rename(path.with_name(path.name + _REMOVED)))
            case "topic":
                assert admin is not None, "without it, no topic is found"
                admin.delete(leftover.name)

    def _needed(self, query: str) -> set[int]:
        """The versions of a query's checkpoint that some version of the pipeline may go on with."""
        used = (self.kept.made(query, version) for version in self._pipeline_versions())
        needed = {one.checkpoint_version for one in used if one is not None}
        live = self._live(query)
        return needed if live is None else needed | {live}

    def _pipeline_versions(self) -> list[int]:
        """The file's, those before it that one may go back to, and any after it."""
        now = self.graph.specification.version
        known = {one.pipeline_version for made in self.kept.queries.values() for one in made}
        before = sorted(one for one in known if one < now)
        return [*before[max(0, len(before) - self.keeps) :], now, *(one for one in known if one > now)]

    def _live(self, query: str) -> int | None:
        """The version of its table that readers see."""
        store = self.stores.get(query)
        return next((one.version for one in store.versions() if one.is_live), None) if store else None
