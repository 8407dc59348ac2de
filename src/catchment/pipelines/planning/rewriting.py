"""Whether a query would write rows where they have been written before.

A query without a checkpoint of its own reads from the beginning, and no lake, topic or table knows it for the one that has filled
them under another name. A table with a key would not have rows twice, but its counts would go back before the eyes of readers, and
stay too low where topics no longer reach back to the beginning; so it is treated like the others.
"""

from __future__ import annotations

from catchment.pipelines.naming import without_kind
from catchment.pipelines.planning.signature import Current, Kept, Made, Target


def earlier_writer(name: str, goes_on: Made | None, old: Kept, new: Current) -> str | None:
    """Who has written before where a query is to write now, itself included; None if it may write there.

    `goes_on` is the checkpoint that the query goes on with, if it does not begin anew.
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
    """Whether a query goes on writing rows of another stage there: a place may be filled by several."""
    now = new.queries[query].target if query in new.queries else None
    if now is None or now.place != target.place:
        return False
    before = [one.signature.target.stage for one in old.queries[query] if one.signature.target]
    return target.stage not in (now.stage, *before)
