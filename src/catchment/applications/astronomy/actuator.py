"""The telescope: looks where something happens."""

from __future__ import annotations

from typing import Any


class Actuator:
    """Where it points."""

    def __init__(self) -> None:
        self.star: str | None = None

    def act(self, command: dict[str, Any]) -> str | None:
        row = command["row"]
        if self.star == row["star"]:
            return None
        self.star = str(row["star"])
        return f"telescope at {row['ascension']:.1f}°, {row['declination']:.1f}°"
