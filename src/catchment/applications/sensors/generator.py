"""Rooms that get warm and cool down again, each in its own time."""

from __future__ import annotations

import math
from random import Random
from typing import Final

from catchment.applications.running.events import Event, Generator

ROOMS: Final = tuple(f"room-{number}" for number in range(1, 13))
_PERIOD_S: Final = 40.0


class Events(Generator):
    """A wave for each room, between 22 and 34 degrees."""

    key = "room"
    invalid = ({"celsius": 4000.0},)

    def event(self, random: Random, now_s: float) -> Event:
        number = random.randrange(len(ROOMS))
        phase = 2 * math.pi * (now_s / _PERIOD_S + number / len(ROOMS))
        return {"room": ROOMS[number], "celsius": round(28 + 6 * math.sin(phase), 2)}
