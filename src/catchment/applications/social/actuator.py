"""The front page of the network."""

from __future__ import annotations

from typing import Any


class Actuator:
    """What everybody sees first: the last three."""

    def __init__(self) -> None:
        self.tags: list[str] = []

    def act(self, command: dict[str, Any]) -> str:
        tag = str(command["row"]["tag"])
        self.tags = [tag, *(one for one in self.tags if one != tag)][:3]
        return f"front page: {' '.join(self.tags)}"
