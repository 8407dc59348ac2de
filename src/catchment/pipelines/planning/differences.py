"""How two signatures differ, in sentences that name the column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from catchment.pipelines.declaration.specification import OLD_ROWS
from catchment.pipelines.execution.rows.row_values import beyond_json, columns_of_schema
from catchment.pipelines.planning.signature import Operator, Signature

_FORMATS: Final = {"avro": "Avro", "json": "JSON"}


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
