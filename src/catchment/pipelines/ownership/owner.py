"""The owner of what a query writes to, and the rule by which another query, or another copy of its checkpoint, is refused.

An owner is the query of one checkpoint: Spark's id of the query is in the checkpoint, so a query whose checkpoint was deleted, or
lies in another home, is another owner. A copied checkpoint has the same id. So each run that writes also leaves a token of its own
with the owner and in the checkpoint: a copy that did not write last does not have the token of the one that did.

Rows that were written before owners were recorded are adopted only by the query whose id stands beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from catchment.pipelines.errors import Refusal
from catchment.pipelines.naming import without_kind
from catchment.pipelines.ownership.targets import OwnedTarget

_TWICE: Final = "every row would be written a second time"
RESET: Final = "start from scratch with `catchment pipeline reset FILE`"


class Owner(BaseModel):
    """A query that writes to a target. Later versions of Catchment may add facts, which are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pipeline: str
    version: int
    """That of its checkpoint."""
    query: str
    query_id: str
    run: str
    """The token of the run that claimed the target last."""
    home: str
    host: str
    since: str
    """When that was."""


@dataclass(frozen=True)
class Found:
    """What is at a target, as far as it says who wrote it."""

    owners: tuple[Owner, ...] = ()
    last_batch: int | None = None
    """The newest batch that the target has of the query that asks; None where the target counts no batches."""
    has_other_rows: bool = False
    """Whether it holds rows that none of the home's own queries has written, as far as the target says."""
    is_empty: bool = False
    """Whether it is there and has no row at all."""


@dataclass(frozen=True)
class Asking:
    """A query that asks which batches at a target are its own."""

    query_id: str | None
    home_ids: frozenset[str] = frozenset()
    """The ids of all queries whose checkpoints are in the home."""


@dataclass(frozen=True)
class Claimant:
    """A query that is to write, with what its checkpoint says."""

    pipeline: str
    version: int
    query: str
    home: str
    asking: Asking
    runs: frozenset[str] = frozenset()
    """The tokens of the runs that this checkpoint has claimed targets with."""
    places: frozenset[str] = frozenset()
    """The targets that it has claimed, as digests."""
    newest_planned: int | None = None


class Objection(NamedTuple):
    """Why a query may not write to a target, and what to do about it."""

    reason: str
    ways: tuple[str, ...]
    """What helps, any of them."""
    is_elsewhere: bool = False
    """Whether a query of the same name owns the target, whose checkpoint this is not: a new version may write beside it."""

    @property
    def remedy(self) -> str:
        return remedy([self])


class NotOwned(Refusal):
    """Targets that queries may not write to."""

    def __init__(self, objections: Mapping[str, Objection]) -> None:
        said = [f"{query}: {one.reason}" for query, one in objections.items()]
        super().__init__("\n       ".join(said), remedy(objections.values()))
        self.objections = dict(objections)


def remedy(objections: Iterable[Objection]) -> str:
    """All that helps against some of the objections, each once."""
    ways = list(dict.fromkeys(way for one in objections for way in one.ways))
    # What deletes everything comes last.
    ways.sort(key=lambda way: way == RESET)
    text = "; or ".join(["; ".join(ways[:-1]), ways[-1]]) if len(ways) > 1 else ways[0]
    return f"{text[0].upper()}{text[1:]}."


def objection(target: OwnedTarget, found: Found, claimant: Claimant, beside: Collection[str] = ()) -> Objection | None:
    """What speaks against a query's writing to a target; None if it may. `beside` are the file's queries that write there too."""
    foreign = [one for one in found.owners if one.pipeline != claimant.pipeline]
    if foreign and not target.is_shared:
        return _of_another_pipeline(target, foreign[0])
    ours = [one for one in found.owners if one.pipeline == claimant.pipeline]
    own = next((one for one in ours if one.query == claimant.query), None)
    if own is None:
        return _unowned(target, found, claimant, [one for one in ours if one.query not in beside])
    if own.query_id != claimant.asking.query_id:
        return _elsewhere(target, own, claimant)
    if own.run not in claimant.runs:
        return _copied(target, own, claimant)
    return _behind(target, found, claimant)


def _unowned(target: OwnedTarget, found: Found, claimant: Claimant, renamed: list[Owner]) -> Objection | None:
    if renamed:
        return Objection(
            f"{target.name} has the rows of {renamed[0].query}, which the file does not have: {_TWICE}",
            (
                f"if it is {without_kind(renamed[0].query)} under another name, give it back that name",
                f"name another {target.kind}",
                RESET,
            ),
        )
    if target.digest in claimant.places:
        return Objection(
            f"{target.name} was emptied, removed or replaced: it has no record of {claimant.query}, "
            f"which has written there up to batch {claimant.newest_planned}",
            ("restore what was there", RESET),
        )
    if found.last_batch is not None:
        return _behind(target, found, claimant)
    if found.has_other_rows:
        return Objection(
            f"{target.name} holds rows of a query whose checkpoint is not in {claimant.home}: {_TWICE}",
            ("use the --home that has its checkpoint", *_beside(target, claimant.version), RESET),
            is_elsewhere=True,
        )
    return None


def _of_another_pipeline(target: OwnedTarget, owner: Owner) -> Objection:
    return Objection(
        f"{target.name} belongs to pipeline {owner.pipeline}, whose query {owner.query} writes it",
        (f"name another {target.kind}", f"reset pipeline {owner.pipeline}, if it is not needed any more"),
    )


def _elsewhere(target: OwnedTarget, own: Owner, claimant: Claimant) -> Objection:
    is_gone = own.home == claimant.home
    where = f"gone from {own.home}" if is_gone else f"in {own.home} on {own.host}"
    return Objection(
        f"{target.name} holds rows of {own.query}, whose checkpoint is {where}: {_TWICE}",
        (
            "restore the checkpoint" if is_gone else f"use --home {own.home}",
            *_beside(target, own.version),
            RESET,
        ),
        is_elsewhere=True,
    )


def _beside(target: OwnedTarget, version: int) -> tuple[str, ...]:
    if target.has_versions:
        return (f"raise the pipeline's version above {version} to write tables and topics beside them",)
    return (f"name another {target.kind}",)


def _copied(target: OwnedTarget, own: Owner, claimant: Claimant) -> Objection:
    at = f"in {own.home} on {own.host}, at {own.since}"
    return Objection(
        f"{target.name} was last written from another copy of this checkpoint, {at}: rows would be missing or there twice",
        (f"use --home {own.home}, and delete the copy in {claimant.home}", RESET),
    )


def _behind(target: OwnedTarget, found: Found, claimant: Claimant) -> Objection | None:
    planned = -1 if claimant.newest_planned is None else claimant.newest_planned
    if found.last_batch is None or found.last_batch <= planned:
        return None
    known = "no batch" if planned < 0 else f"none after {planned}"
    return Objection(
        f"{target.name} has batch {found.last_batch} of {claimant.query}, whose checkpoint in {claimant.home} "
        f"knows of {known}: it is an older copy, and rows would be missing",
        ("use the --home that wrote it", RESET),
    )
