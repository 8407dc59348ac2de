"""Who restarts hosts."""

from __future__ import annotations

from typing import Any


class Actuator:
    """How often each host was restarted."""

    def __init__(self) -> None:
        self.restarts: dict[str, int] = {}

    def act(self, command: dict[str, Any]) -> str:
        host = str(command["key"]["host"])
        self.restarts[host] = self.restarts.get(host, 0) + 1
        return f"{host} is restarted"
