"""The visitors of the example: some buy, some leave a full cart, and those get a letter."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "the last visits that ended", "visitor", "pages", beside=("has_cart", "has_paid", "end"), order=("end", "DESC")
)
_PAGES: Final = ("/", "/shoes", "/hats", "/coats", "/about")
_MOST_AT_ONCE: Final = 200


class Events(Generator):
    """At most so many visitors at once; each leaves one day, and another comes."""

    key = "visitor"
    invalid = ({"page": "nowhere"},)

    def __init__(self) -> None:
        self._count = 0
        self._carts: dict[str, bool] = {}

    def event(self, random: Random, now_s: float) -> Event:
        if len(self._carts) < _MOST_AT_ONCE:
            self._count += 1
            self._carts[f"visitor-{self._count}"] = False
        visitor = random.choice(list(self._carts))
        has_cart = self._carts[visitor]
        chosen = random.random()
        if chosen < 0.02:
            page = "/paid" if has_cart and chosen < 0.019 else "/"
            del self._carts[visitor]
        elif chosen < 0.05:
            page, self._carts[visitor] = "/cart", True
        else:
            page = random.choice(_PAGES)
        return {"visitor": visitor, "page": page}


class Actuator:
    """Letters, one for each visitor."""

    def __init__(self) -> None:
        self.reminded: set[str] = set()

    def act(self, command: dict[str, Any]) -> str | None:
        visitor = str(command["row"]["visitor"])
        if visitor in self.reminded:
            return None
        self.reminded.add(visitor)
        return f"a letter to {visitor}"
