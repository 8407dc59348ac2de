"""Sharing out items evenly among members who may each take any of them, moving as few as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def share_out(items: Sequence[Item], owners: Mapping[Item, str], members: Sequence[str]) -> dict[str, list[Item]]:
    """Give each member as many items as any other, or one more; `owners` keep theirs as far as that allows.

    Who holds more than the least share keeps the one that is over, so no other division moves fewer. What is left goes to
    the members in runs, in the order of the items.
    """
    least, over = divmod(len(items), len(members))
    held: dict[str, list[Item]] = {member: [] for member in members}
    for item in items:
        if (owner := owners.get(item)) in held:
            held[owner].append(item)
    shares = dict.fromkeys(members, least)
    # A stable sort: among those who hold too much, and among the others, the order of the members decides.
    for member in sorted(members, key=lambda member: len(held[member]) <= least)[:over]:
        shares[member] += 1
    for member, kept in held.items():
        del kept[shares[member] :]
    taken = {item for kept in held.values() for item in kept}
    free = iter([item for item in items if item not in taken])
    for member, kept in held.items():
        kept += [next(free) for _ in range(shares[member] - len(kept))]
    return held
