"""What is wrong with options: names that are misspelt, and everything that a source or sink finds, told at once with what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final, TypeVar

from catchment.client.errors import SettingsError

Result = TypeVar("Result")

_TYPO_SIMILARITY: Final = 0.85


def misspelt_names(given: Iterable[str], known_names: Iterable[str]) -> list[SettingsError]:
    """Names that are close to an option of ours are misspelt; others may be meant for another reader, as in table properties."""
    known = {name.lower(): name for name in known_names}
    found = []
    for name in given:
        near = get_close_matches(name.lower(), known, n=1, cutoff=_TYPO_SIMILARITY)
        if near and name.lower() not in known:
            found.append(SettingsError(f"unknown option {name}", f"Did you mean {known[near[0]]}?"))
    return found


class OptionMistakes:
    """Mistakes found so far."""

    def __init__(self, found: Iterable[SettingsError] = ()) -> None:
        self._found = list(found)

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
