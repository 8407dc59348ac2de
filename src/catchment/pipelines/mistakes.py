"""Everything that is wrong with a pipeline, told at once and each with its place, before Spark is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Path = tuple[str | int, ...]
"""The keys and numbers that lead to a declaration, such as ("sources", "reports", "lateness")."""


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Mistake(NamedTuple):
    """What is wrong, and where."""

    place: Place | None
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}" if self.place else self.what


class Mistakes(Exception):
    """A pipeline that cannot be run as it is written."""

    def __init__(self, found: Sequence[Mistake]) -> None:
        super().__init__("\n".join(str(one) for one in found))
        self.found = tuple(found)
