"""The authors of the example: they post about many topics, now and then all about the same, and the network has a front page."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "posts by tag, in windows of 10 s, every 5",
    "tag",
    "posts",
    window="start",
    beside=("authors",),
    order=("posts", "DESC"),
)
_QUIET: Final = tuple(f"#{one}" for one in ("tea", "rain", "chess", "bread", "trains", "moss", "kites", "jazz"))
_LOUD: Final = ("#eclipse", "#goal", "#snow")
_PERIOD_S: Final = 20.0
_BURST_S: Final = 5.0
_BURST_A_SECOND: Final = 30.0
_QUIET_A_SECOND: Final = 20.0


class Events(Generator):
    """Loud tags for some seconds of each period. Most posts have a tag that no other post has."""

    key = "tag"
    invalid = ({"tag": "no tag"},)

    def __init__(self) -> None:
        self._next_loud_s = self._next_quiet_s = 0.0

    def event(self, random: Random, now_s: float) -> Event:
        period, moment_s = divmod(now_s, _PERIOD_S)
        tag = "#" + "".join(random.choices("abcdefghij", k=6))
        if moment_s < _BURST_S and self._next_loud_s <= now_s:
            self._next_loud_s = max(self._next_loud_s, now_s - 1) + 1 / _BURST_A_SECOND
            tag = _LOUD[int(period) % len(_LOUD)]
        elif self._next_quiet_s <= now_s:
            self._next_quiet_s = max(self._next_quiet_s, now_s - 1) + 1 / _QUIET_A_SECOND
            tag = random.choice(_QUIET)
        return {"author": f"author-{random.randrange(500)}", "tag": tag, "text": f"something about {tag}"}


class Actuator:
    """The last three tags."""

    def __init__(self) -> None:
        self.tags: list[str] = []

    def act(self, command: dict[str, Any]) -> str:
        tag = str(command["row"]["tag"])
        self.tags = [tag, *(one for one in self.tags if one != tag)][:3]
        return f"front page: {' '.join(self.tags)}"
