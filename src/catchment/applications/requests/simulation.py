"""The clients of the example: they ask for goods, now and then all for the same, and the buyer orders what runs out."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "goods asked for, every 10 s", "item", "asked", window="start", beside=("shelf",), order=("asked", "DESC")
)
_CENTS: Final = {"tea": 450, "bread": 380, "salt": 90, "candles": 600, "rope": 1250, "soap": 240}
_PERIOD_S: Final = 20.0
_RUN_S: Final = 5.0


class Events(Generator):
    """Most ask for one or two; in a run, the same item is asked for by the dozen."""

    key = "client"
    tables: Mapping[str, Mapping[str, Event]] = {
        "prices": {item: {"item": item, "cents": cents, "shelf": 5_000} for item, cents in _CENTS.items()}
    }
    invalid = ({"quantity": 0},)

    def event(self, random: Random, now_s: float) -> Event:
        period, moment_s = divmod(now_s, _PERIOD_S)
        item = random.choice([*_CENTS, "moonlight"] if random.random() < 0.05 else list(_CENTS))
        quantity = random.choice((1, 1, 2))
        if moment_s < _RUN_S and item == list(_CENTS)[int(period) % len(_CENTS)]:
            quantity = 24
        return {"client": f"client-{random.randrange(50)}", "item": item, "quantity": quantity}


class Actuator:
    """Orders, by item."""

    def __init__(self) -> None:
        self.ordered: dict[str, int] = {}

    def act(self, command: dict[str, Any]) -> str:
        row = command["row"]
        quantity = 2 * int(row["asked"])
        self.ordered[row["item"]] = self.ordered.get(row["item"], 0) + quantity
        return f"{quantity} {row['item']} ordered"
