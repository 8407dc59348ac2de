"""The city of the main job: its events, its dispatcher, and its counts computed again without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "calls by district, every 10 s",
    "district",
    "calls",
    window="start",
    beside=("count", "crew"),
    order=("calls", "DESC"),
)
CREWS: Final = {
    "Harbour": 2,
    "Old Town": 4,
    "Riverside": 1,
    "Hillside": 3,
    "Market": 5,
    "Station": 2,
    "University": 3,
    "Docklands": 1,
}
_KINDS: Final = ("fire", "flood", "quake", "crash")
_CALLS_A_SECOND: Final = 12.0
_BURST_CALLS_A_SECOND: Final = 14.0
_BURST_S: Final = (6.0, 10.0)
_BETWEEN_BURSTS_S: Final = (15.0, 30.0)
_FIRST_BURST_S: Final = 5.0
_WINDOW_S: Final = 10
_NAMED: Final = 5


class Events(Generator):
    """The reports of the city."""

    key = "district"
    tables: Mapping[str, Mapping[str, Event]] = {
        "crews": {district: {"district": district, "crew": crew} for district, crew in CREWS.items()}
    }
    invalid: Sequence[Event] = ({"kind": "party"}, {"district": None}, {"kind": None})

    def __init__(self) -> None:
        self._next_call_s: float | None = None
        self._next_burst_call_s = 0.0
        self._burst_from_s = 0.0
        self._burst_until_s = 0.0
        self._district = ""
        self._kind = ""

    def event(self, random: Random, now_s: float) -> Event:
        if self._next_call_s is None:
            self._next_call_s = now_s
            self._plan_burst(random, now_s + _FIRST_BURST_S)
        if self._burst_until_s < now_s:
            self._plan_burst(random, now_s + random.uniform(*_BETWEEN_BURSTS_S))
        if max(self._next_burst_call_s, self._burst_from_s) <= now_s:
            # A generator that makes many events at once makes those of the last second.
            since_s = max(self._next_burst_call_s, now_s - 1)
            self._next_burst_call_s = since_s + random.expovariate(_BURST_CALLS_A_SECOND)
            return _report("citizen", self._district, self._kind, random)
        if self._next_call_s <= now_s:
            self._next_call_s += random.expovariate(_CALLS_A_SECOND)
            return _report("citizen", random.choice(list(CREWS)), random.choice(_KINDS), random)
        origin = random.choice(("sensor", "sensor", "traffic"))
        is_calm = random.random() < 0.97
        kind = "calm" if is_calm else "crash" if origin == "traffic" else random.choice(_KINDS[:3])
        return _report(origin, random.choice(list(CREWS)), kind, random)

    def _plan_burst(self, random: Random, from_s: float) -> None:
        # Mostly where there are few crews, or no crew would have to be sent.
        weights = [1 / crew**2 for crew in CREWS.values()]
        self._district = random.choices(list(CREWS), weights)[0]
        self._kind = random.choice(_KINDS)
        self._burst_from_s = from_s
        self._burst_until_s = from_s + random.uniform(*_BURST_S)


def _report(origin: str, district: str, kind: str, random: Random) -> Event:
    level = random.gammavariate(2, 0.5) + (0 if kind == "calm" else 3)
    return {"origin": origin, "district": district, "kind": kind, "level": round(level, 2)}


class Actuator:
    """Tracks the crews of each district."""

    def __init__(self) -> None:
        self._crews = dict(CREWS)

    def act(self, command: dict[str, Any]) -> str:
        district = str(command["row"]["district"])
        nearest = max((one for one in self._crews if one != district), key=lambda one: self._crews[one])
        self._crews[nearest] -= 1
        self._crews[district] = self._crews.get(district, 0) + 1
        return f"a crew goes from {nearest} to {district}"


def differences(clean: Iterable[Mapping[str, Any]], board: Iterable[Mapping[str, Any]]) -> list[str]:
    """Windows whose counts are not those of the reports."""
    expected: Counter[tuple[str, datetime]] = Counter()
    calls: Counter[tuple[str, datetime]] = Counter()
    for report in clean:
        moment_s = datetime.fromisoformat(report["at"]).timestamp()
        window = report["district"], datetime.fromtimestamp(moment_s // _WINDOW_S * _WINDOW_S, UTC)
        expected[window] += 1
        calls[window] += report.get("origin") == "citizen"
    found = {(row["district"], row["start"]): (row["count"], row["calls"]) for row in board}
    wanted = {window: (count, calls[window]) for window, count in expected.items()}
    wrong = sorted(one for one in found.keys() | wanted.keys() if found.get(one) != wanted.get(one))
    return [
        f"the board has {found.get(one)} for {one[0]} at {one[1]:%H:%M:%S}, and the reports are {wanted.get(one)}"
        for one in wrong[:_NAMED]
    ] + ([f"and {len(wrong) - _NAMED} more windows"] if len(wrong) > _NAMED else [])
