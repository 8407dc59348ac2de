"""What came of the things that have an id, for as many of the latest as there is room for."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

REMEMBERED_IDS: Final = 10_000

Outcome = TypeVar("Outcome")


class Remembered(Generic[Outcome]):
    """Outcomes by id. The one that was noted first is forgotten first."""

    def __init__(self, limit: int = REMEMBERED_IDS) -> None:
        self.limit = limit
        self._outcomes: OrderedDict[str, Outcome] = OrderedDict()

    def __contains__(self, identity: str) -> bool:
        return identity in self._outcomes

    def __getitem__(self, identity: str) -> Outcome:
        return self._outcomes[identity]

    def __setitem__(self, identity: str, outcome: Outcome) -> None:
        self._outcomes[identity] = outcome
        if len(self._outcomes) > self.limit:
            self._outcomes.popitem(last=False)
