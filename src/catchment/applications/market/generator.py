"""Shares whose prices wander, one that climbs, and now and then somebody who buys a lot."""

from __future__ import annotations

import math
from random import Random
from typing import Final

from catchment.applications.running.events import Event, Generator

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
