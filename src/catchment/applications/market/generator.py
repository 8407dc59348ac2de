"""Shares whose prices wander, one that climbs, and now and then somebody who buys a lot."""

from __future__ import annotations

from random import Random
from typing import Final

from catchment.applications.running.events import Event, Generator

SYMBOLS: Final = ("OAK", "ELM", "ASH", "FIR", "BAY", "YEW")
_CLIMBING: Final = "OAK"
_LARGE_SHARE: Final = 0.001


class Events(Generator):
    """Random walks around 100."""

    key = "symbol"
    invalid = ({"price": -1.0}, {"quantity": 0})

    def __init__(self) -> None:
        self._prices = dict.fromkeys(SYMBOLS, 100.0)

    def event(self, random: Random, now_s: float) -> Event:
        symbol = random.choice(SYMBOLS)
        drift = 0.0008 if symbol == _CLIMBING and self._prices[symbol] < 130 else 0.0
        self._prices[symbol] *= 1 + random.gauss(drift, 0.0003)
        quantity = random.randrange(20_000, 50_000) if random.random() < _LARGE_SHARE else random.randrange(1, 500)
        return {"symbol": symbol, "price": round(self._prices[symbol], 2), "quantity": quantity}
