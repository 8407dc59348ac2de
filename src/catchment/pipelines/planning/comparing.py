"""A pipeline as it is written now against the checkpoints that it has: one decision for each query.

A query that may not go on with its checkpoint begins anew if the pipeline's version has been raised: with another checkpoint, and
with another topic where others read it, so that everything downstream begins anew as well. The old ones stay as they are, and
lowering the version goes back to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Final, Literal

from catchment.pipelines.declaration.specification import NEW_ROWS, WrittenRows
from catchment.pipelines.planning.differences import differences
from catchment.pipelines.planning.rewriting import earlier_writer, remedy
from catchment.pipelines.planning.signature import Current, Kept, Made, Signature

FIRST_VERSION: Final = 1
Action = Literal["new", "reuse", "new version", "refuse"]


@dataclass(frozen=True)
class Decision:
    """What becomes of one query."""

    action: Action
    version: int
    """That of its checkpoint."""
    reasons: tuple[str, ...] = ()
    remedy: str | None = None


@dataclass(frozen=True)
class Plan:
    """What becomes of a whole pipeline."""

    queries: dict[str, Decision]
    current: Current
    rows: dict[str, WrittenRows] = field(default_factory=dict)
    """How the topics of stages hold rows: those that a checkpoint is gone on with as they do, new ones as it is asked for."""

    @property
    def versions(self) -> dict[str, int]:
        """The version of each query's checkpoint."""
        return {name: decision.version for name, decision in self.queries.items()}

    @property
    def refused(self) -> dict[str, Decision]:
        return {name: decision for name, decision in self.queries.items() if decision.action == "refuse"}


def compare(old: Kept | None, new: Current, begins: Mapping[str, int] | None = None) -> Plan:
    """Decide query by query, those that others read first. `begins` are the versions of queries that may not begin with the first:
    what that would write to belongs to another home."""
    decisions: dict[str, Decision] = {}
    for name in TopologicalSorter({name: one.upstream for name, one in new.queries.items()}).static_order():
        made = old.made(name, new.version) if old else None
        if old is None or made is None:
            decisions[name] = _first(name, old or Kept(pipeline=""), new, (begins or {}).get(name, FIRST_VERSION))
        else:
            decisions[name] = _again(name, made, old, new, decisions)
    rows = {name: _rows(name, one, old, new) for name, one in decisions.items() if new.queries[name].row_schema}
    return Plan({name: decisions[name] for name in new.queries}, _settled(new, rows), rows)


def _rows(name: str, decision: Decision, old: Kept | None, new: Current) -> WrittenRows:
    made = old.made(name, new.version) if old and decision.action in ("reuse", "refuse") else None
    return made.rows if made is not None else WrittenRows(new.queries[name].rows_as or NEW_ROWS)


def _settled(new: Current, rows: dict[str, WrittenRows]) -> Current:
    """With the formats that topics will have, for the next comparison."""
    settled = {
        name: new.queries[name].model_copy(
            update={"rows_as": one.format} | ({} if one.format == "avro" else {"row_schema": None})
        )
        for name, one in rows.items()
    }
    return Current(version=new.version, queries=new.queries | settled)


def _first(name: str, old: Kept, new: Current, version: int) -> Decision:
    """Nothing of the query is there yet, whatever the pipeline's version is."""
    if (writer := earlier_writer(name, None, old, new)) is None:
        return Decision("new", version)
    again = f"beginning anew, it would write every row a second time to {_target(new, name)}, as {writer} did"
    return Decision("refuse", FIRST_VERSION, (again,), remedy(name, writer, new))


def _again(name: str, made: Made, old: Kept, new: Current, decisions: dict[str, Decision]) -> Decision:
    signature = new.queries[name]
    readers = {
        reader: found.signature
        for reader in old.queries
        if (found := old.made(reader, new.version)) is not None and name in found.signature.upstream
    }
    changed = tuple(differences(made.signature, signature, readers))
    reasons = changed + tuple(_read_otherwise(made, signature, decisions))
    if not reasons:
        if (writer := earlier_writer(name, made, old, new)) is None:
            return Decision("reuse", made.checkpoint_version)
        moved = (
            f"it would go on at {_target(new, name)}, where {writer} wrote: rows would be there twice, or be missing"
        )
        return Decision("refuse", made.checkpoint_version, (moved,), remedy(name, writer, new))
    if new.version <= made.pipeline_version:
        return Decision("refuse", made.checkpoint_version, reasons, _raise_version(made, new.version))
    if (writer := earlier_writer(name, None, old, new)) is not None:
        again = f"beginning anew, it would write every row a second time to {_target(new, name)}"
        return Decision("refuse", made.checkpoint_version, (*reasons, again), remedy(name, writer, new))
    return Decision("new version", new.version, reasons)


def _read_otherwise(made: Made, signature: Signature, decisions: dict[str, Decision]) -> Iterator[str]:
    """Which of the queries that it reads write to another topic than the one whose offsets its checkpoint holds."""
    for one in signature.upstream:
        before, now = made.upstream_versions.get(one), decisions[one].version
        if decisions[one].action == "new version":
            yield f"it reads {one}, which begins anew"
        elif before is not None and before != now:
            yield f"it read version {before} of {one} and would now read version {now}"


def _target(new: Current, name: str) -> str:
    target = new.queries[name].target
    return target.name if target else "nothing"


def _raise_version(made: Made, version: int) -> str:
    higher = max(made.pipeline_version, version) + 1
    return f"Set the pipeline's version to {higher}, and it begins anew beside the old one; or take the change back."
