"""Batches of records in the same delivery state, and how newer batches are merged with older ones."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

AVAILABLE: Final = 0
ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4

NO_START: Final = -1
"""A start offset that is not known yet, or that a write does not change."""


class StateBatch(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


_FIRST: Final = attrgetter("first_offset")
_LAST: Final = attrgetter("last_offset")


def merge(older: tuple[StateBatch, ...], newer: tuple[StateBatch, ...], start_offset: int) -> tuple[StateBatch, ...]:
    """Merge two lists without overlaps. Only the range where they meet has to be combined."""
    if not newer:
        kept = bisect_left(older, start_offset, key=_LAST)
        return older[kept:] if kept == len(older) else (_cut(older[kept], start_offset), *older[kept + 1 :])
    # Adjacent batches with the same state must become one, so they meet too.
    meet_from = bisect_left(older, newer[0].first_offset - 1, key=_LAST)
    meet_until = bisect_right(older, newer[-1].last_offset + 1, key=_FIRST)
    before = merge(older[:meet_from], (), start_offset)
    return (
        before
        + combine(older[meet_from:meet_until] + newer, start_offset)
        + merge(older[meet_until:], (), start_offset)
    )


def combine(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """The same states without overlaps, in order, from `start_offset` on.

    Where batches overlap, the one with the higher delivery count is newer and wins. At the same count the higher state wins,
    as in Kafka. Adjacent batches with the same state become one.
    """
    waiting = sorted(_cut(batch, start_offset) for batch in batches if batch.last_offset >= start_offset)
    combined: list[StateBatch] = []
    open_batches: list[tuple[int, int, int]] = []
    """A heap of the batches that cover the current offset: (-count, -state, last offset), so that the winner is first."""
    position = index = 0
    while open_batches or index < len(waiting):
        if not open_batches:
            position = waiting[index].first_offset
        while index < len(waiting) and waiting[index].first_offset <= position:
            batch = waiting[index]
            heapq.heappush(open_batches, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            index += 1
        count, state, last_offset = open_batches[0]
        if last_offset < position:
            heapq.heappop(open_batches)
            continue
        if index < len(waiting):
            last_offset = min(last_offset, waiting[index].first_offset - 1)
        _append(combined, StateBatch(position, last_offset, -state, -count))
        position = last_offset + 1
    return tuple(combined)


def _cut(batch: StateBatch, start_offset: int) -> StateBatch:
    return batch._replace(first_offset=start_offset) if batch.first_offset < start_offset else batch


def _append(combined: list[StateBatch], batch: StateBatch) -> None:
    if combined:
        before = combined[-1]
        if before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
            combined[-1] = before._replace(last_offset=batch.last_offset)
            return
    combined.append(batch)
