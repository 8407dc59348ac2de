"""The buyer: orders what runs out."""

from __future__ import annotations

from typing import Any


class Actuator:
    """Orders, by item."""

    def __init__(self) -> None:
        self.ordered: dict[str, int] = {}

    def act(self, command: dict[str, Any]) -> str:
        row = command["row"]
        quantity = 2 * int(row["asked"])
        self.ordered[row["item"]] = self.ordered.get(row["item"], 0) + quantity
        return f"{quantity} {row['item']} ordered"
