"""Whether a pipeline owns what it is to write to, and reads what its checkpoints were made with; checked before Spark starts.

Nothing is changed. A target that cannot be reached is noted, not refused: a run claims it before the first row, by the same rule.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from catchment.client.errors import ClientError, Unreachable
from catchment.client.settings import split_addresses
from catchment.pipelines.declaration.addresses import broker_settings, brokers, expanded
from catchment.pipelines.declaration.specification import LakeSink, StoreSink
from catchment.pipelines.driving.supervision.run_file import is_running
from catchment.pipelines.errors import Refusal
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.pipelines.ownership.notes import Notes, claimant
from catchment.pipelines.ownership.owner import RESET, Claimant, Found, NotOwned, Objection, Owner, objection
from catchment.pipelines.ownership.targets import OwnedTarget, topics_of, written_targets
from catchment.pipelines.ownership.topic_owners import BrokerFacts, Owners, TopicOwners
from catchment.pipelines.planning import kept_with_checkpoints
from catchment.pipelines.planning.comparing import FIRST_VERSION
from catchment.pipelines.stores.store_opening import open_store

_LOOK_S: Final = 5.0
_CONNECT_S: Final = 2.0


@dataclass(frozen=True)
class OwnerChecks:
    """What was found of each query."""

    objections: dict[str, Objection] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    """The versions that queries begin with because their first one belongs to another home."""
    notes: tuple[str, ...] = ()


def check_owners(graph: Graph, folder: Path, home: Home, servers: str | None) -> OwnerChecks:
    """Look at the brokers, the stores and the lakes."""
    require_no_reset(home)
    with ExitStack() as stack:
        look = _Look(graph, folder, home)
        try:
            specification = graph.specification
            addresses = brokers(specification, servers)
            _require_listener(addresses)
            topics = TopicOwners(addresses, broker_settings(specification), _LOOK_S)
            look.see_brokers(stack.enter_context(topics))
        except ClientError as error:
            look.notes.append(f"{error.message}; the owners of topics were not looked at")
        for query in dict(written_targets(graph, folder)):
            look.see(query)
        return OwnerChecks(look.objections, look.begins, tuple(look.notes))


def require_owner(graph: Graph, folder: Path, home: Home, servers: str | None) -> OwnerChecks:
    """The same; raises `NotOwned`."""
    found = check_owners(graph, folder, home, servers)
    if found.objections:
        raise NotOwned(found.objections)
    return found


def require_no_reset(home: Home) -> None:
    """Refuse a pipeline that is half deleted."""
    if home.reset_file.exists():
        raise Refusal(
            f"a reset of pipeline {home.pipeline} in {home.root} was interrupted",
            "Finish it: catchment pipeline reset FILE.",
        )


def _require_listener(servers: str) -> None:
    """Find out at once where no broker listens: the client would try for as long as it may."""
    for address in split_addresses(servers):
        with suppress(OSError), socket.create_connection(address, timeout=_CONNECT_S):
            return
    raise Unreachable(f"no broker answers at {servers}")


class _Look:
    """The check of all queries of a pipeline, made once."""

    def __init__(self, graph: Graph, folder: Path, home: Home) -> None:
        self._specification = graph.specification
        self._folder = folder
        self._home = home
        kept = kept_with_checkpoints(home)
        made = {name: kept.made(name, self._specification.version) for name in kept.queries} if kept else {}
        self._versions = {name: one.checkpoint_version for name, one in made.items() if one is not None}
        self._graph = Graph(self._specification, self._versions)
        self._topics: TopicOwners | None = None
        self._owners: Owners = {}
        self.objections: dict[str, Objection] = {}
        self.begins: dict[str, int] = {}
        self.notes: list[str] = []

    def see_brokers(self, topics: TopicOwners) -> None:
        """Read what the brokers have, and compare it with what the checkpoints were made with."""
        facts = topics.facts()
        self._owners = topics.read()
        self._topics = topics
        for level in self._graph.order:
            for query in level:
                notes = Notes.read(self._home.checkpoint(query, self._version(query)))
                if (against := _other_brokers(self._graph, query, notes, facts)) is not None:
                    self.objections[query] = against

    def see(self, query: str) -> None:
        """Look at what one query writes to."""
        if query in self.objections:
            return
        version = self._version(query)
        against = self._against(query, version)
        newest = self._specification.version
        is_first = claimant(self._home, query, version).asking.query_id is None
        if against is not None and against.is_elsewhere and is_first and newest > version:
            target = dict(written_targets(self._graph, self._folder))[query]
            if target.has_versions and self._against(query, newest) is None:
                self.begins[query] = newest
                return
        if against is not None:
            self.objections[query] = against

    def _against(self, query: str, version: int) -> Objection | None:
        graph = Graph(self._specification, {**self._versions, query: version})
        targets = dict(written_targets(graph, self._folder))
        target = targets[query]
        beside = {one for one, other in targets.items() if other.digest == target.digest}
        one = claimant(self._home, query, version)
        try:
            found = self._found(graph, query, target, one)
        except ClientError as error:
            self.notes.append(f"{target.name} could not be looked at: {error.message}")
            return None
        if found is None:
            return None
        if (against := objection(target, found, one, beside)) is not None:
            return against
        own = next((other for other in found.owners if (other.pipeline, other.query) == (one.pipeline, query)), None)
        self._note(target, found, one, own)
        return None if own is None else self._running_elsewhere(target, own)

    def _found(self, graph: Graph, query: str, target: OwnedTarget, one: Claimant) -> Found | None:
        if target.topic is not None:
            if self._topics is None:
                return None
            owners = self._owners.get(target.topic, ())
            is_new = one.newest_planned is None and not owners and not target.is_shared
            has_rows = is_new and target.topic in self._topics.facts().topics and self._topics.has_records(target.topic)
            return Found(owners, has_other_rows=has_rows)
        sink = graph.target(query)
        if isinstance(sink, StoreSink):
            with open_store(expanded(sink.store, self._folder), sink.table, sink.ttl) as store:
                return store.found(one.version, one.asking)
        assert isinstance(sink, LakeSink), "an alert writes no rows"
        lake = open_lake(expanded(sink.lake, self._folder), kind=sink.format, partition_by=sink.partition_by)
        return lake.found(one.asking)

    def _note(self, target: OwnedTarget, found: Found, one: Claimant, own: Owner | None) -> None:
        if found.is_empty and found.last_batch is not None and target.digest in one.places:
            self.notes.append(
                f"{target.name} has no rows, though {one.query} has written batches up to {found.last_batch}: if rows were "
                "deleted, they are not written again; `catchment pipeline reset FILE` starts from scratch"
            )
        if own is None and one.places and target.digest not in one.places:
            self.notes.append(f"{one.query} goes on at {target.name}: rows that it wrote before stay where they are")

    def _running_elsewhere(self, target: OwnedTarget, own: Owner) -> Objection | None:
        """A copy of the checkpoints is written to at this moment."""
        other = Home(Path(own.home), own.pipeline)
        if own.host != socket.gethostname() or other.root == self._home.root or not is_running(other):
            return None
        return Objection(
            f"{target.name} is being written by a run of pipeline {own.pipeline} in {own.home}",
            (f"stop that run first: catchment pipeline stop {own.pipeline} --home {own.home}",),
        )

    def _version(self, query: str) -> int:
        return self._versions.get(query, FIRST_VERSION)


def _other_brokers(graph: Graph, query: str, notes: Notes, facts: BrokerFacts) -> Objection | None:
    if notes.cluster_id and facts.cluster_id and notes.cluster_id != facts.cluster_id:
        return Objection(
            f"its checkpoint was made with cluster {notes.cluster_id}, and these brokers are cluster {facts.cluster_id}: "
            "offsets of one are not those of the other",
            (
                "name the brokers of that cluster with --bootstrap-server",
                "use another --home, with other stores and lakes",
                RESET,
            ),
        )
    for topic, topic_id in _noted(graph, query, notes):
        if topic not in facts.topics and topic in {one.topic for one in graph.topics()}:
            return Objection(
                f"topic {topic} was deleted, which the pipeline has written: what was not read of it is lost",
                (RESET,),
            )
        if facts.topics.get(topic, topic_id) not in (topic_id, ""):
            return Objection(
                f"topic {topic} was deleted and created again: the offsets in the checkpoint are of the old one, "
                "and rows would be missing or there twice",
                (RESET,),
            )
    return None


def _noted(graph: Graph, query: str, notes: Notes) -> Iterator[tuple[str, str]]:
    """The topics that a query works with, as they were."""
    for topic in topics_of(graph, query):
        if topic in notes.topics:
            yield topic, notes.topics[topic]
