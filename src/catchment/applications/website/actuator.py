"""Whoever left a full cart gets a letter."""

from __future__ import annotations

from typing import Any


class Actuator:
    """Letters, one for each visitor."""

    def __init__(self) -> None:
        self.reminded: set[str] = set()

    def act(self, command: dict[str, Any]) -> str | None:
        visitor = str(command["row"]["visitor"])
        if visitor in self.reminded:
            return None
        self.reminded.add(visitor)
        return f"a letter to {visitor}"
