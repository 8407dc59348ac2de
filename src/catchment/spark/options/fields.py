"""Read and check single options. Mistakes are collected, so that all of them are reported at once.

Names are given as people write them; letter case makes no difference. What cannot be read is taken for its default until the mistakes
are raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from catchment.spark.options.mistakes import OptionMistakes

_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_SIZE: Final = re.compile(r"\s*(\d+)\s*([kmgt]?)b?\s*")
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_UNITS_S: Final = {
    "": 0.001,
    "ms": 0.001,
    "s": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
_LARGEST: Final = 2**31 - 1


class OptionFields:
    """The options of a source or sink; those of the client with their prefix."""

    def __init__(self, options: Mapping[str, str], mistakes: OptionMistakes) -> None:
        self._given = {name.lower(): str(value) for name, value in options.items()}
        self._mistakes = mistakes

    def text(self, name: str) -> str | None:
        """What was given; None if nothing was."""
        return self._given.get(name.lower())

    def names(self, name: str) -> tuple[str, ...]:
        """Names that are separated by commas; none if nothing was given."""
        return tuple(one.strip() for one in (self.text(name) or "").split(",") if one.strip())

    def count(self, name: str, *, or_else: str = "") -> int | None:
        """`or_else` is what the option may be besides, as the advice says it."""
        text = self.text(name)
        if text is None:
            return None
        if not text.strip().isdecimal() or int(text) == 0:
            self.wrong(name, f"Give a whole number above 0{or_else}.")
            return None
        return int(text)

    def number(self, name: str, default: int, *, least: int = 1, most: int = _LARGEST) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            self.wrong(name, f"Give a whole number from {least} to {most}.")
            return default
        return number

    def size_bytes(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        found = _SIZE.fullmatch(text.lower())
        if found is None or int(found[1]) == 0:
            self.wrong(name, 'Give a size, such as "1048576", "64m" or "1g".')
            return None
        return int(found[1]) << _SHIFTS[found[2]]

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            self.wrong(name, "Say true or false.")
        return text.strip().lower() == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of several words; the first is the default."""
        text = self.text(name)
        if text is None:
            return choices[0]
        for choice in choices:
            if text.strip().lower() == choice.lower():
                return choice
        self.wrong(name, f"Choose {', '.join(choices[:-1])} or {choices[-1]}.")
        return choices[0]

    def seconds(self, name: str, default_s: float, default_unit: str) -> float:
        text = self.text(name)
        if text is None:
            return default_s
        found = _DURATION.fullmatch(text.lower())
        unit = found[2] or default_unit if found else ""
        scale_s = _UNITS_S.get(unit, _UNITS_S.get(unit.removesuffix("s")))
        if found is None or scale_s is None or float(found[1]) == 0:
            self.wrong(name, 'Give a time, such as "500ms", "2s" or "15m".')
            return default_s
        return float(found[1]) * scale_s

    def time_ms(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.strip().isdecimal():
            self.wrong(name, "Give a time in milliseconds since 1970, such as 1735689600000.")
            return 0
        return int(text)

    def wrong(self, name: str, remedy: str) -> None:
        self._mistakes.add(f"the option {name} cannot be {self.text(name)!r}", remedy)
