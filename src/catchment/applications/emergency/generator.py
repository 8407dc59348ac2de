"""Events of a city: sensors and traffic all the time, citizens who call, and now and then a district that has an emergency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from catchment.applications.running.events import Event, Generator

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


class Events(Generator):
    """The city as it goes on."""

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
        # Mostly where there are few crews, or nobody would have to be sent.
        weights = [1 / crew**2 for crew in CREWS.values()]
        self._district = random.choices(list(CREWS), weights)[0]
        self._kind = random.choice(_KINDS)
        self._burst_from_s = from_s
        self._burst_until_s = from_s + random.uniform(*_BURST_S)


def _report(origin: str, district: str, kind: str, random: Random) -> Event:
    level = random.gammavariate(2, 0.5) + (0 if kind == "calm" else 3)
    return {"origin": origin, "district": district, "kind": kind, "level": round(level, 2)}
