"""Claims on what a run writes to, made before its first row: topics when the queries are built, tables and lakes with their first batch.

A store that is away must delay only its own query, so its table is claimed by that query. The topics of all queries are claimed in
one transaction, before any of them starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from catchment.client.errors import ClientError
from catchment.pipelines.execution.periodic_task import PeriodicTask
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.lakes.lake import Lake
from catchment.pipelines.ownership.notes import Notes, begun, claimant, new_owner
from catchment.pipelines.ownership.owner import Asking, Claimant, Found, NotOwned, Owner, objection
from catchment.pipelines.ownership.targets import OwnedTarget, topics_of, written_targets
from catchment.pipelines.ownership.topic_owners import BrokerFacts, TopicClaim, TopicOwners
from catchment.pipelines.stores.store import RealTimeStore

_logger = logging.getLogger(__name__)
_CHECK_EVERY_S: Final = 5.0


@dataclass(frozen=True)
class _Claim:
    """A query and the target that it is to write to."""

    context: RunContext
    query: str
    target: OwnedTarget
    beside: frozenset[str]
    claimant: Claimant
    owner: Owner
    """The owner to be recorded."""

    @classmethod
    def of(cls, context: RunContext, query: str) -> _Claim:
        places = dict(written_targets(context.graph, context.folder))
        version = context.version(query)
        query_id = begun(context.home, query, version)
        beside = frozenset(one for one, other in places.items() if other.digest == places[query].digest)
        return cls(
            context,
            query,
            places[query],
            beside,
            claimant(context.home, query, version),
            new_owner(context.home, query, version, query_id),
        )

    def check(self, found: Found) -> None:
        if (against := objection(self.target, found, self.claimant, self.beside)) is not None:
            raise NotOwned({self.query: against})

    def note(self) -> None:
        """Save the run's token before the owner is recorded, so that a crash in between does not lose it."""
        Notes.read(self._folder).with_run(self.owner.run).write(self._folder)

    def confirm(self) -> None:
        """Save the target after the owner is recorded."""
        Notes.read(self._folder).with_place(self.target.digest).write(self._folder)

    @property
    def _folder(self) -> Path:
        return _checkpoint(self.context, self.query)


class ClaimedTopic(NamedTuple):
    """A topic, and its owner as a run has recorded it."""

    topic: str
    owner: Owner


class ClaimsWatch:
    """Checks at intervals whether the run still owns its topics: tasks that write to them do not check.

    A run from a copy of the checkpoints may have claimed them, on another machine. Tables and lakes are checked with every batch.
    """

    def __init__(self, context: RunContext, claimed: Sequence[ClaimedTopic], pause_s: float = _CHECK_EVERY_S) -> None:
        self.lost: str | None = None
        """The error message once a topic has another owner."""
        self._context = context
        self._claimed = tuple(claimed)
        self._work = PeriodicTask("owners of topics", self._check, pause_s) if claimed else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._work is not None:
            self._work.close()

    def _check(self) -> None:
        try:
            with TopicOwners(self._context.servers, self._context.kafka, _CHECK_EVERY_S) as owners:
                recorded = owners.read()
        except ClientError as error:
            # The queries report brokers that are away.
            _logger.info("the owners of topics cannot be read: %s", error)
            return
        for one in self._claimed:
            now = recorded.get(one.topic, ())
            if one.owner.run in [other.run for other in now]:
                continue
            other = next((other for other in now if other.query == one.owner.query), None)
            whom = f"a run in {other.home} on {other.host}" if other else "nothing"
            self.lost = f"topic {one.topic} is now owned by {whom}, so this run writes no more. Run a pipeline once."


def claim_topics(context: RunContext, queries: Collection[str]) -> list[ClaimedTopic]:
    """Claim the topics that these queries write, all or none, and record the brokers and topics that they use."""
    if not queries:
        return []
    claims = [
        _Claim.of(context, query)
        for query, one in written_targets(context.graph, context.folder)
        if one.topic is not None and query in queries
    ]
    with TopicOwners(context.servers, context.kafka) as owners:
        for one in claims:
            one.note()
        owners.claim([TopicClaim(_topic(one), one.owner, partial(_check_topic, one, owners)) for one in claims])
        facts = owners.facts()
    for one in claims:
        one.confirm()
    for query in queries:
        _note_brokers(context, query, facts)
    return [ClaimedTopic(_topic(one), one.owner) for one in claims]


def claim_table(context: RunContext, query: str, store: RealTimeStore) -> None:
    """Claim a version of a table."""
    _claim(_Claim.of(context, query), store.claim)


def claim_lake(context: RunContext, query: str, lake: Lake) -> None:
    """Claim a lake."""
    _claim(_Claim.of(context, query), lake.claim)


def _claim(claim: _Claim, record: Callable[[Owner, Asking, Callable[[Found], None]], None]) -> None:
    claim.note()
    record(claim.owner, claim.claimant.asking, claim.check)
    claim.confirm()


def _check_topic(claim: _Claim, topics: TopicOwners, owners: tuple[Owner, ...]) -> None:
    # Other programs may have written to a topic that is no boundary.
    is_boundary = not claim.target.is_shared
    has_other_rows = is_boundary and claim.claimant.newest_planned is None and topics.has_records(_topic(claim))
    claim.check(Found(owners, has_other_rows=has_other_rows))


def _note_brokers(context: RunContext, query: str, facts: BrokerFacts) -> None:
    topics = {one: facts.topics[one] for one in topics_of(context.graph, query) if facts.topics.get(one)}
    notes = Notes.read(_checkpoint(context, query))
    noted = notes.model_copy(update={"cluster_id": facts.cluster_id, "topics": topics})
    if noted != notes:
        noted.write(_checkpoint(context, query))


def _checkpoint(context: RunContext, query: str) -> Path:
    return context.home.checkpoint(query, context.version(query))


def _topic(claim: _Claim) -> str:
    assert claim.target.topic is not None, "only topics are claimed together"
    return claim.target.topic
