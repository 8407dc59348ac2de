"""The hosts of the example, one of which is down at any time, and the service that restarts them."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "measurements by host, every 10 s, the fewest first",
    "host",
    "count",
    window="start",
    beside=("cpu", "memory"),
    order=("count", "ASC"),
)
HOSTS: Final = tuple(f"host-{number:02d}" for number in range(1, 41))
_DOWN_S: Final = 20.0


class Events(Generator):
    """Every twenty seconds another host stops reporting for as long."""

    key = "host"
    invalid = ({"cpu": 7.5},)

    def __init__(self) -> None:
        self._began_s: float | None = None

    def event(self, random: Random, now_s: float) -> Event:
        if self._began_s is None:
            self._began_s = now_s
        turn = int((now_s - self._began_s) / _DOWN_S)
        # In the first turn all hosts report, so that the absence of each can be detected.
        down = HOSTS[turn % len(HOSTS)] if turn else None
        host = random.choice([one for one in HOSTS if one != down])
        return {"host": host, "cpu": round(random.betavariate(2, 5), 3), "memory": round(random.betavariate(5, 3), 3)}


class Actuator:
    """How often each host was restarted."""

    def __init__(self) -> None:
        self.restarts: dict[str, int] = {}

    def act(self, command: dict[str, Any]) -> str:
        host = str(command["key"]["host"])
        self.restarts[host] = self.restarts.get(host, 0) + 1
        return f"{host} is restarted"
