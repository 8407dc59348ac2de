"""Authors who post about many things, and now and then all about the same."""

from __future__ import annotations

from random import Random
from typing import Final

from catchment.applications.running.events import Event, Generator

_QUIET: Final = tuple(f"#{one}" for one in ("tea", "rain", "chess", "bread", "trains", "moss", "kites", "jazz"))
_LOUD: Final = ("#eclipse", "#goal", "#snow")
_PERIOD_S: Final = 20.0
_BURST_S: Final = 5.0
_BURST_A_SECOND: Final = 30.0
_QUIET_A_SECOND: Final = 20.0


class Events(Generator):
    """Loud tags for some seconds of each period. Most of what is posted has a tag that nobody else uses."""

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
