"""A pipeline as it is written now against the checkpoints that it has: one decision for each query.

A query that may not go on with its checkpoint starts from scratch if the pipeline's version has been raised: with another checkpoint, and
with another topic where others read it, so that everything downstream starts from scratch as well. The old ones stay as they are, and
lowering the version goes back to them.

A query without a checkpoint of its own reads from the beginning, and no lake, topic or table recognises it as the one that filled
them under another name. A table with a key would not have rows twice, but readers would see its counts go back, and they would stay too
low where topics no longer reach back to the beginning. So it is treated like the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Final, Literal

from catchment.pipelines.declaration.specification import NEW_ROWS, OLD_ROWS, WrittenRows
from catchment.pipelines.execution.rows.row_values import beyond_json, columns_of_schema
from catchment.pipelines.naming import without_kind
from catchment.pipelines.planning.signature import Current, Kept, Made, Operator, Signature, Target

FIRST_VERSION: Final = 1
Action = Literal["new", "reuse", "new version", "refuse"]
_FORMATS: Final = {"avro": "Avro", "json": "JSON"}


@dataclass(frozen=True)
class Decision:
    """The decision about one query."""

    action: Action
    version: int
    """The version of its checkpoint."""
    reasons: tuple[str, ...] = ()
    remedy: str | None = None


@dataclass(frozen=True)
class Plan:
    """The decisions about a whole pipeline."""

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
    again = f"starting from scratch, it would write every row a second time to {_target(new, name)}, as {writer} did"
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
        again = f"starting from scratch, it would write every row a second time to {_target(new, name)}"
        return Decision("refuse", made.checkpoint_version, (*reasons, again), remedy(name, writer, new))
    return Decision("new version", new.version, reasons)


def _read_otherwise(made: Made, signature: Signature, decisions: dict[str, Decision]) -> Iterator[str]:
    """Which of the queries that it reads write to another topic than the one whose offsets its checkpoint holds."""
    for one in signature.upstream:
        before, now = made.upstream_versions.get(one), decisions[one].version
        if decisions[one].action == "new version":
            yield f"it reads {one}, which starts from scratch"
        elif before is not None and before != now:
            yield f"it read version {before} of {one} and would now read version {now}"


def _target(new: Current, name: str) -> str:
    target = new.queries[name].target
    return target.name if target else "nothing"


def _raise_version(made: Made, version: int) -> str:
    higher = max(made.pipeline_version, version) + 1
    return f"Set the pipeline's version to {higher}, and it starts from scratch beside the old one; or take the change back."


def earlier_writer(name: str, goes_on: Made | None, old: Kept, new: Current) -> str | None:
    """The query that wrote before where a query is to write now, itself included; None if it may write there.

    `goes_on` is the checkpoint that the query goes on with, if it does not start from scratch.
    """
    target = new.queries[name].target
    if target is None or _stays(target, goes_on):
        return None
    for query, made in old.queries.items():
        is_versioned = query == name and target.has_versions
        if is_versioned or _writes_beside(query, target, old, new):
            continue
        if any(target.place in one.places for one in made if one is not goes_on):
            return query
    return None


def remedy(name: str, writer: str, new: Current) -> str:
    """What to do about it."""
    if writer == name:
        return f"Give {name} another place to write to, or take the change back."
    known = without_kind(writer)
    is_sink = new.queries[name].kind == "outlet"
    back = f"give it back its name (`name: {known}`)" if is_sink else f"give it back its name, {known}"
    return f"If it is {writer} under another name, {back}; if not, give it another place to write to."


def _stays(target: Target, goes_on: Made | None) -> bool:
    before = goes_on.signature.target if goes_on else None
    return before is not None and before.place == target.place


def _writes_beside(query: str, target: Target, old: Kept, new: Current) -> bool:
    """Whether a query goes on writing rows of another stage there: a target may have several writers."""
    now = new.queries[query].target if query in new.queries else None
    if now is None or now.place != target.place:
        return False
    before = [one.signature.target.stage for one in old.queries[query] if one.signature.target]
    return target.stage not in (now.stage, *before)


def differences(old: Signature, new: Signature, readers: Mapping[str, Signature]) -> Iterator[str]:
    """What keeps a query from going on with its checkpoint. `readers` are the old signatures of those that read it."""
    if old.reads != new.reads:
        yield f"it read {_listed(old.reads)} and now reads {_listed(new.reads)}"
    if old.mode != new.mode:
        yield f"its mode was {old.mode} and is {new.mode}"
    yield from _state_differences(old.state, new.state)
    yield from _column_differences(old, new, readers)
    if old.event_time != new.event_time:
        yield f"its event time was {old.event_time or 'none'} and is {new.event_time or 'none'}"
    elif new.lateness_ms < old.lateness_ms:
        yield (
            f"its lateness was {old.lateness_ms} ms and is {new.lateness_ms} ms: "
            "rows that were in time before would be dropped by what reads them"
        )
    yield from _format_differences(old, new)


def _format_differences(old: Signature, new: Signature) -> Iterator[str]:
    if new.row_schema is None:
        return
    held = old.rows_as or OLD_ROWS
    if new.rows_as is not None and new.rows_as != held:
        yield f"its topic holds {_FORMATS[held]}, and {_FORMATS[new.rows_as]} is asked for"
    elif held == "json":
        for one in beyond_json(columns_of_schema(new.row_schema)):
            yield f"its topic holds JSON, which does not carry column {one.path}: it is {one.what}"


def _state_differences(old: tuple[Operator, ...], new: tuple[Operator, ...]) -> Iterator[str]:
    old_kinds, new_kinds = [one.kind for one in old], [one.kind for one in new]
    if old_kinds != new_kinds:
        yield f"its state was {_listed(old_kinds)} and is {_listed(new_kinds)}"
        return
    for before, after in zip(old, new, strict=True):
        yield from _operator_differences(before, after)


def _operator_differences(old: Operator, new: Operator) -> Iterator[str]:
    before = {part.name: part.what for part in old.parts}
    after = {part.name: part.what for part in new.parts}
    found = [f"{name} ({what}) is gone" for name, what in before.items() if name not in after]
    found += [f"{name} ({what}) is new" for name, what in after.items() if name not in before]
    found += [
        f"{name} was {what} and is {after[name]}"
        for name, what in before.items()
        if name in after and after[name] != what
    ]
    if not found and [*before] != [*after]:
        found.append(f"the order was {_listed(before)} and is {_listed(after)}")
    for one in found:
        yield f"{old.kind}: {one}"


def _column_differences(old: Signature, new: Signature, readers: Mapping[str, Signature]) -> Iterator[str]:
    for name, kind in old.columns.items():
        if name in new.columns and new.columns[name] != kind:
            yield f"column {name} was {kind} and is {new.columns[name]}"
        if name not in new.columns:
            users = [reader for reader, signature in readers.items() if name in signature.uses]
            if users:
                yield f"column {name} is gone, which the state of {_listed(users)} is made of"
            elif old.kind == "outlet" and old.target is not None and old.target.has_versions:
                yield f"column {name} is gone, which its table has"

    for name in new.required:
        if name not in old.columns:
            yield f"column {name} is new and never null, but older rows have no value for it"


def _listed(names: object) -> str:
    assert isinstance(names, list | tuple | dict)
    return ", ".join(names) or "nothing"
