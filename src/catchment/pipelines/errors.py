"""Errors of pipelines: mistakes of the author, each with its location, and what the existing state does not allow."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from catchment.client.errors import ClientError, SettingsError

Path = tuple[str | int, ...]
"""The keys and numbers that lead to a declaration, such as ("sources", "reports", "lateness")."""


class Location(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Mistake(NamedTuple):
    """What is wrong, and where."""

    location: Location | None
    what: str

    def __str__(self) -> str:
        return f"{self.location}: {self.what}" if self.location else self.what


class Mistakes(Exception):
    """A pipeline that cannot be run as it is written."""

    def __init__(self, found: Sequence[Mistake]) -> None:
        super().__init__("\n".join(str(one) for one in found))
        self.found = tuple(found)


class Finding(NamedTuple):
    """What is wrong with a declaration, given by its keys: its line in the file is looked up later."""

    path: Path
    what: str
    location: Location | None = None
    """The line, where it is more exact than that of the keys: that of a stage's function, for instance."""


class Unresolved(SettingsError):
    """A pipeline that names columns which do not exist, or whose types do not fit."""

    def __init__(self, found: Sequence[Finding]) -> None:
        super().__init__("\n".join(one.what for one in found))
        self.found = tuple(found)


def dotted(path: Path) -> str:
    """The keys that lead to a declaration, as people write them."""
    return ".".join(map(str, path))


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a misspelt one, if any is like it."""
    by_lower_case = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return by_lower_case[found[0]] if found else None


class Refusal(ClientError):
    """The state in the checkpoints, a store or a lake does not belong to this pipeline as it is written: a retry does not help."""
