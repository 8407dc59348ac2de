"""The bank's safe-guard: an account that is overdrawn is frozen."""

from __future__ import annotations

from typing import Any


class Actuator:
    """Frozen accounts."""

    def __init__(self) -> None:
        self.frozen: set[str] = set()

    def act(self, command: dict[str, Any]) -> str | None:
        account = str(command["row"]["account"])
        if account in self.frozen:
            return None
        self.frozen.add(account)
        return f"{account} is frozen"
