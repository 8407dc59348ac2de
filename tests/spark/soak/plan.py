"""What the test and the program under fire have agreed on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

SOURCE: Final = "source"
MAPPED: Final = "mapped"
COUNTED: Final = "counted"
PARTITIONS: Final = {SOURCE: 3, MAPPED: 3, COUNTED: 2}
BUCKETS: Final = 7
"""Records are counted by their number modulo this."""


@dataclass(frozen=True)
class Plan:
    """What the test tells the program."""

    format: str
    bootstrap_servers: str
    directory: str
    jars: str | None = None
    holds: bool = False
    """Whether rows of partition 1 wait in their task for as long as `hold_path` exists."""

    def checkpoint(self, name: str) -> Path:
        return Path(self.directory) / "checkpoints" / name

    @property
    def hold_path(self) -> Path:
        return Path(self.directory) / "hold"

    def text(self) -> str:
        return json.dumps(asdict(self))
