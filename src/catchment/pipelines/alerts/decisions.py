"""Which candidates fire as alerts: one for each key and event time, and none within the cooldown of another.

Behaviour
    Two alerts of a key are at least the cooldown apart, and a candidate that does not fire is closer than that to one that
    did. Both hold for event times, and neither depends on the order in which rows come. So a batch that is repeated
    after a crash, with the memory read back from the log, fires what was missing and nothing else.
Gaps
    The memory holds the newest 100,000 alerts by event time. A candidate that is older than all of them, or may be within the
    cooldown of one that was forgotten, never fires. So no more than that many alerts fire within one cooldown.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

REMEMBERED_ALERTS: Final = 100_000
_LONG_AGO_US: Final = -(2**63)


class Candidate(NamedTuple):
    """A row that satisfies the condition."""

    key: str
    """The key's columns as a JSON object."""
    event_time_us: int
    id: str
    record_key: str | None
    """The key as that of a record; none where it is a single column that is null."""
    value: str
    """The whole alert as JSON."""
    topic_keys: Sequence[str | None]
    """The keys of its records in the topics of the rule, in the same order."""


class Decision(NamedTuple):
    """The decisions on a batch's candidates."""

    fired: list[Candidate]
    repeated: int
    """Alerts that had been fired already."""
    cooling: int
    """Candidates too close to an alert of their key."""
    forgotten: int
    """Candidates older than all that is remembered, or too close to what no longer is."""


class Memory:
    """The event times of alerts by key. Discard it if its decisions may not have been written."""

    def __init__(self, cooldown_us: int, limit: int = REMEMBERED_ALERTS) -> None:
        self._cooldown_us = cooldown_us
        self._limit = limit
        self._times_us: dict[str, list[int]] = {}
        self._oldest: list[tuple[int, str]] = []
        self._forgotten_us = _LONG_AGO_US

    def __len__(self) -> int:
        return len(self._oldest)

    def remember(self, key: str, event_time_us: int) -> None:
        """Add an alert of the log."""
        times_us = self._times_us.setdefault(key, [])
        position = bisect_left(times_us, event_time_us)
        if position < len(times_us) and times_us[position] == event_time_us:
            return
        insort(times_us, event_time_us)
        heapq.heappush(self._oldest, (event_time_us, key))
        if len(self._oldest) > self._limit:
            self._forget_oldest()

    def decide(self, candidates: Iterable[Candidate]) -> Decision:
        """What to fire of a batch, earliest first; what fires is remembered at once."""
        fired: list[Candidate] = []
        repeated = cooling = forgotten = 0
        for candidate in sorted(candidates, key=lambda one: (one.event_time_us, one.key, one.value)):
            if candidate.event_time_us < self._forgotten_us + max(1, self._cooldown_us):
                forgotten += 1
                continue
            distance_us = self._distance_us(candidate.key, candidate.event_time_us)
            if distance_us == 0:
                repeated += 1
            elif distance_us is not None and distance_us < self._cooldown_us:
                cooling += 1
            else:
                fired.append(candidate)
                self.remember(candidate.key, candidate.event_time_us)
        return Decision(fired, repeated, cooling, forgotten)

    def _distance_us(self, key: str, event_time_us: int) -> int | None:
        """The distance to the nearest alert of the key."""
        times_us = self._times_us.get(key, [])
        position = bisect_left(times_us, event_time_us)
        return min(
            (abs(time_us - event_time_us) for time_us in times_us[max(0, position - 1) : position + 1]), default=None
        )

    def _forget_oldest(self) -> None:
        event_time_us, key = heapq.heappop(self._oldest)
        times_us = self._times_us[key]
        times_us.remove(event_time_us)
        if not times_us:
            del self._times_us[key]
        self._forgotten_us = max(event_time_us, self._forgotten_us)
