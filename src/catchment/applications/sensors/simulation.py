"""The rooms of the example: each warms up and cools down in its own time, and has an air conditioning."""

from __future__ import annotations

import math
from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "rooms at their last change between hot and cool", "room", "celsius", beside=("is_hot", "at"), order=("room", "ASC")
)
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


class Actuator:
    """Switches."""

    def __init__(self) -> None:
        self.is_on: dict[str, bool] = {}

    def act(self, command: dict[str, Any]) -> str | None:
        room, is_hot = str(command["row"]["room"]), bool(command["row"]["is_hot"])
        if self.is_on.get(room, False) == is_hot:
            return None
        self.is_on[room] = is_hot
        return f"air conditioning of {room} {'on' if is_hot else 'off'}"
