"""The dispatcher: sends crews from districts that can spare them."""

from __future__ import annotations

from typing import Any

from catchment.applications.emergency.generator import CREWS


class Actuator:
    """Knows where the crews are."""

    def __init__(self) -> None:
        self._crews = dict(CREWS)

    def act(self, command: dict[str, Any]) -> str:
        district = str(command["row"]["district"])
        nearest = max((one for one in self._crews if one != district), key=lambda one: self._crews[one])
        self._crews[nearest] -= 1
        self._crews[district] = self._crews.get(district, 0) + 1
        return f"a crew goes from {nearest} to {district}"
