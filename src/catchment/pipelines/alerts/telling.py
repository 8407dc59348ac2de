"""How somebody outside is told of an alert, and what may come of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


class Notification(NamedTuple):
    """An alert as somebody outside is told of it."""

    id: str
    message: str
    value: bytes
    """The whole alert as JSON."""


class TellingFailed(Exception):
    """It did not work, but may the next time."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """How long the other side asks us to wait."""


class TellingRefused(Exception):
    """It did not work, and will not by being repeated."""


class Listener(ABC):
    """Somebody who is told. At least once: whoever minds finds the alert's id in what is sent."""

    @abstractmethod
    def tell(self, alert: Notification) -> None:
        """Return when the other side has taken it; raise TellingFailed or TellingRefused."""
