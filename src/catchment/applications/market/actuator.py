"""The trading desk: takes gains, and looks into large orders."""

from __future__ import annotations

from typing import Any


class Actuator:
    """Orders that the desk has given."""

    def act(self, command: dict[str, Any]) -> str:
        row = command["row"]
        if command["alert"] == "gain":
            return f"sold {row['symbol']} at {row['last']:.2f}"
        return f"order {row['id']} goes to a reviewer"
