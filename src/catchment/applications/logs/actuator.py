"""Feature flags: what fails is switched off until somebody has looked at it."""

from __future__ import annotations

from typing import Any


class Actuator:
    """The flags of all features."""

    def __init__(self) -> None:
        self.disabled: set[str] = set()

    def act(self, command: dict[str, Any]) -> str | None:
        service = str(command["row"]["service"])
        if service in self.disabled:
            return None
        self.disabled.add(service)
        return f"feature {service} is disabled"
