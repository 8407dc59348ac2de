"""A pipeline started from scratch: everything that it has written is deleted, and the next run creates and fills it again.

Only what the pipeline owns is deleted, by the records of owners in stores, lakes and brokers. What was written before owners were
recorded is the pipeline's if the id of one of the home's queries stands beside it. Never deleted are topics that the pipeline reads, what
another pipeline owns, and the log of alerts: it keeps them from firing a second time.

What is to be deleted is written down first, and checkpoints go last. Until all is gone no run starts, and the next reset finishes the work.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import TypeAdapter

from catchment.client.errors import ClientError
from catchment.pipelines.declaration.addresses import broker_settings, brokers, expanded
from catchment.pipelines.declaration.specification import LakeSink, StoreSink
from catchment.pipelines.driving.supervision.run_file import AlreadyRunning, RunLock, is_running
from catchment.pipelines.execution.topics import TopicAdmin
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.lakes.lake import Lake
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.pipelines.naming import LATE_SUFFIX, QUARANTINE_SUFFIX, REPLAYED_SUFFIX
from catchment.pipelines.ownership.notes import home_ids
from catchment.pipelines.ownership.owner import Asking, Owner
from catchment.pipelines.ownership.targets import owned_sink
from catchment.pipelines.ownership.topic_owners import Owners, TopicOwners
from catchment.pipelines.planning.deciding import read_kept
from catchment.pipelines.stores.store import RealTimeStore
from catchment.pipelines.stores.store_opening import open_store

_REMOVED: Final = "checkpoints.removed"


class Thing(NamedTuple):
    """What a reset deletes."""

    kind: Literal["topic", "table", "lake", "checkpoints"]
    name: str
    """A topic, the query that fills a table or a lake, or the folder of the checkpoints."""
    what: str
    """The same for people."""


_THINGS: Final = TypeAdapter(list[Thing])


@dataclass(frozen=True)
class Reset:
    """What is to be deleted, and what stays although the pipeline writes to it."""

    things: tuple[Thing, ...]
    notes: tuple[str, ...] = field(default=())


class Resetting:
    """A pipeline that does not run, held so until this is closed. A dry run only looks, so the pipeline may run meanwhile."""

    def __init__(
        self, graph: Graph, folder: Path, home: Home, servers: str | None, *, is_dry_run: bool = False
    ) -> None:
        specification = graph.specification
        self._graph = graph
        self._home = home
        self._stack = ExitStack()
        self._notes: list[str] = []
        self._servers, self._kafka = brokers(specification, servers), broker_settings(specification)
        try:
            if home.folder.exists() and not is_dry_run:
                self._stack.callback(_lock(home).close)
            self._topics = self._stack.enter_context(TopicOwners(self._servers, self._kafka))
            self._stores: dict[str, RealTimeStore] = {}
            self._lakes: dict[str, Lake] = {}
            self._names: dict[str, str] = {}
            for query, sink in graph.sinks_by_query.items():
                self._open(query, sink.target, folder)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        self._stack.close()

    def found(self) -> Reset:
        """Everything that is the pipeline's, and what an earlier reset has left."""
        self._notes.clear()
        owners = self._topics.read()
        things = [*self._unfinished(), *self._found_topics(owners), *self._found_sinks()]
        if (self._home.folder / "checkpoints").exists() or self._home.plan_file.exists():
            folder = str(self._home.folder / "checkpoints")
            things.append(Thing("checkpoints", folder, f"checkpoints {folder}"))
        return Reset(tuple(dict.fromkeys(things)), tuple(dict.fromkeys(self._notes)))

    def delete(self, reset: Reset) -> None:
        """Delete all of it. What is cut short is finished by the next reset."""
        self._home.folder.mkdir(parents=True, exist_ok=True)
        self._home.reset_file.write_bytes(_THINGS.dump_json(list(reset.things)))
        topics = [one.name for one in reset.things if one.kind == "topic"]
        admin = TopicAdmin(self._servers, self._kafka)
        for topic in topics:
            admin.delete(topic)
        self._topics.forget(self._home.pipeline, topics)
        for one in reset.things:
            if one.kind == "table":
                self._stores[one.name].drop()
            elif one.kind == "lake":
                self._lakes[one.name].drop()
        self._delete_checkpoints()
        self._home.reset_file.unlink()

    def _delete_checkpoints(self) -> None:
        """Under another name first: a checkpoint that is half deleted is never gone on with."""
        removed = self._home.folder / _REMOVED
        if (checkpoints := self._home.folder / "checkpoints").exists():
            shutil.rmtree(removed, ignore_errors=True)
            checkpoints.rename(removed)
        self._home.plan_file.unlink(missing_ok=True)
        if removed.exists():
            shutil.rmtree(removed)

    def _open(self, query: str, target: object, folder: Path) -> None:
        if isinstance(target, StoreSink):
            store = open_store(expanded(target.store, folder), target.table, target.ttl)
            self._stores[query] = self._stack.enter_context(store)
            self._names[query] = owned_sink(target, folder).name
        elif isinstance(target, LakeSink):
            address = expanded(target.lake, folder)
            self._lakes[query] = open_lake(address, kind=target.format, partition_by=target.partition_by)
            self._names[query] = owned_sink(target, folder).name

    def _unfinished(self) -> Iterator[Thing]:
        if not self._home.reset_file.exists():
            return
        for one in _THINGS.validate_json(self._home.reset_file.read_bytes()):
            if one.kind in ("topic", "checkpoints") or one.name in self._names:
                yield one

    def _found_topics(self, owners: Owners) -> Iterator[Thing]:
        specification, pipeline = self._graph.specification, self._home.pipeline
        read = {one.topic for one in (*specification.sources.values(), *specification.tables.values())}
        owned = [topic for topic, known in owners.items() if any(one.pipeline == pipeline for one in known)]
        kept = (QUARANTINE_SUFFIX, REPLAYED_SUFFIX, LATE_SUFFIX)
        candidates = [*owned, *self._earlier_topics(), *(f"{pipeline}{suffix}" for suffix in kept)]
        there = self._topics.facts().topics
        for topic in dict.fromkeys(candidates):
            if topic in read or (topic not in there and topic not in owned):
                continue
            if self._may_go(f"topic {topic}", owners.get(topic, ())):
                yield Thing("topic", topic, f"topic {topic}")

    def _earlier_topics(self) -> Iterator[str]:
        """The topics between queries of all versions that have run in the home."""
        kept = read_kept(self._home)
        for query, made in kept.queries.items() if kept else ():
            if query in self._graph.source_stages or query in self._graph.processing_stages:
                for one in made:
                    boundary = Graph(self._graph.specification, {query: one.checkpoint_version}).boundary(query)
                    if boundary is not None:
                        yield boundary.topic

    def _found_sinks(self) -> Iterator[Thing]:
        ids = frozenset(home_ids(self._home))
        for query, store in self._stores.items():
            owners = store.owners()
            versions = _versions(store, owners)
            is_known = any(store.found(one, Asking(known)).last_batch is not None for one in versions for known in ids)
            if self._is_ours(self._names[query], owners, is_known, is_there=bool(versions)):
                yield Thing("table", query, self._names[query])
        for query, lake in self._lakes.items():
            is_known = any(lake.last_batch(known) is not None for known in ids)
            if self._is_ours(self._names[query], lake.owners(), is_known, is_there=lake.has_batches()):
                if foreign := lake.foreign_names():
                    raise ClientError(
                        f"the folder of {self._names[query]} has {foreign[0]}, which is no part of the lake and would be deleted with it",
                        "Move it to another folder, and reset again. Nothing was deleted.",
                    )
                yield Thing("lake", query, self._names[query])

    def _is_ours(self, name: str, owners: Collection[Owner], is_known: bool, *, is_there: bool) -> bool:
        if owners:
            return self._may_go(name, owners)
        if is_there and not is_known:
            self._notes.append(
                f"{name} has no owner, and nothing in {self._home.root} has written it: it is left as it is"
            )
        return is_known

    def _may_go(self, name: str, owners: Collection[Owner]) -> bool:
        others = [one for one in owners if one.pipeline != self._home.pipeline]
        if others:
            self._notes.append(f"{name} belongs to pipeline {others[0].pipeline} as well: it is left as it is")
            return False
        for one in owners:
            if one.home == str(self._home.root):
                continue
            if one.host == socket.gethostname() and is_running(Home(Path(one.home), one.pipeline)):
                raise ClientError(
                    f"{name} is being written by a run of pipeline {one.pipeline} in {one.home}",
                    f"Stop it first: catchment pipeline stop {one.pipeline} --home {one.home}.",
                )
            self._notes.append(
                f"checkpoints in {one.home} on {one.host} stay, and a run with that home will be refused"
            )
        return True


def _versions(store: RealTimeStore, owners: Collection[Owner]) -> list[int]:
    return sorted({one.version for one in owners} | {one.version for one in store.versions()})


def _lock(home: Home) -> RunLock:
    try:
        return RunLock(home)
    except AlreadyRunning as error:
        raise ClientError(str(error), f"Stop it first: catchment pipeline stop {home.pipeline}.") from error
