"""The sky of the example: stars of a survey, flashes that last a second, and the telescope that turns to them."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "peak by star, every 10 s", "star", "peak", window="start", beside=("usual",), order=("peak", "DESC")
)
STARS: Final = {f"star-{number}": (15.0 * number % 360, 7.0 * number % 180 - 90) for number in range(1, 25)}
_BETWEEN_FLASHES_S: Final = 12.0
_FLASH_S: Final = 1.0


class Events(Generator):
    """Each star around a brightness of its own; one at a time flashes."""

    key = "star"
    invalid = ({"flux": -3.0},)

    def event(self, random: Random, now_s: float) -> Event:
        star = random.choice(list(STARS))
        ascension, declination = STARS[star]
        period, moment_s = divmod(now_s, _BETWEEN_FLASHES_S)
        flux = random.gauss(10 + len(star), 1.0)
        if moment_s < _FLASH_S and star == list(STARS)[int(period) % len(STARS)]:
            flux *= 12
        return {"star": star, "ascension": ascension, "declination": declination, "flux": round(max(0.0, flux), 3)}


class Actuator:
    """Where it points."""

    def __init__(self) -> None:
        self.star: str | None = None

    def act(self, command: dict[str, Any]) -> str | None:
        row = command["row"]
        if self.star == row["star"]:
            return None
        self.star = str(row["star"])
        return f"telescope at {row['ascension']:.1f}°, {row['declination']:.1f}°"
