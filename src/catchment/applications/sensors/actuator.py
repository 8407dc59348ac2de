"""The air conditioning of every room."""

from __future__ import annotations

from typing import Any


class Actuator:
    """Switches."""

    def __init__(self) -> None:
        self.is_on: dict[str, bool] = {}

    def act(self, command: dict[str, Any]) -> str | None:
        room, is_hot = str(command["row"]["room"]), bool(command["row"]["is_hot"])
        if self.is_on.get(room, False) == is_hot:
            return None
        self.is_on[room] = is_hot
        return f"air conditioning of {room} {'on' if is_hot else 'off'}"
