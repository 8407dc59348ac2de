"""Everything that is wrong with the options of a source, told at once: each mistake with what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from catchment.client.errors import SettingsError

Result = TypeVar("Result")


class OptionMistakes:
    """Mistakes found so far."""

    def __init__(self) -> None:
        self._found: list[SettingsError] = []

    def add(self, message: str, remedy: str) -> None:
        self._found.append(SettingsError(message, remedy))

    def tried(self, read: Callable[[], Result], default: Result) -> Result:
        """What `read` gives, or the default if it finds a mistake, which is kept."""
        try:
            return read()
        except SettingsError as error:
            self._found.append(error)
            return default

    def raise_any(self) -> None:
        """Raise what was found, if anything was."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            listed = "".join(f"\n  {number}. {error}" for number, error in enumerate(self._found, start=1))
            raise SettingsError(f"{len(self._found)} options are wrong:{listed}")
