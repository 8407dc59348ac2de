"""The exchange of the example: prices that wander, one that climbs, large orders, and the trading desk."""

from __future__ import annotations

import math
from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "gain of the day by share", "symbol", "gain", beside=("first", "last", "volume"), order=("symbol", "ASC")
)
SYMBOLS: Final = ("OAK", "ELM", "ASH", "FIR", "BAY", "YEW")
_CLIMBING: Final = "OAK"
_LARGE_SHARE: Final = 0.001


class Events(Generator):
    """Waves around 100; the one that climbs gains 30% in its first minute."""

    key = "symbol"
    invalid = ({"price": -1.0}, {"quantity": 0})

    def __init__(self) -> None:
        self._began_s: float | None = None

    def event(self, random: Random, now_s: float) -> Event:
        if self._began_s is None:
            self._began_s = now_s
        number = random.randrange(len(SYMBOLS))
        price = 100 + 2 * math.sin(now_s / 50 + number) + random.gauss(0, 0.05)
        if SYMBOLS[number] == _CLIMBING:
            price *= 1 + 0.3 * min(1.0, max(0.0, (now_s - self._began_s) / 60))
        quantity = random.randrange(20_000, 50_000) if random.random() < _LARGE_SHARE else random.randrange(1, 500)
        return {"symbol": SYMBOLS[number], "price": round(price, 2), "quantity": quantity}


class Actuator:
    """Orders that the desk has given."""

    def act(self, command: dict[str, Any]) -> str:
        row = command["row"]
        if command["alert"] == "gain":
            return f"sold {row['symbol']} at {row['last']:.2f}"
        return f"order {row['id']} goes to a reviewer"
