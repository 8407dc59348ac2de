"""The options of a driver, passed by the supervisor as command-line arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MODULE: Final = "catchment.pipelines.driving.driver"


@dataclass(frozen=True)
class DriverOptions:
    """The options of one run."""

    file: Path
    home: Path
    master: str
    servers: str | None = None
    is_endless: bool = True
    status_port: int = 0
    lineage: str | None = None
    patience_s: float = 600.0

    def command(self) -> list[str]:
        """The command that starts a driver with these options."""
        arguments = ["--home", str(self.home), "--master", self.master, "--status-port", str(self.status_port)]
        arguments += ["--patience-s", str(self.patience_s)]
        arguments += ["--servers", self.servers] if self.servers else []
        arguments += ["--lineage", self.lineage] if self.lineage else []
        arguments += [] if self.is_endless else ["--available-now"]
        return [sys.executable, "-m", _MODULE, *arguments, str(self.file)]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> DriverOptions:
        parser = argparse.ArgumentParser(
            prog=_MODULE, description="The driver process of a pipeline; started by its supervisor."
        )
        parser.add_argument("file", type=Path)
        parser.add_argument("--home", type=Path, required=True)
        parser.add_argument("--master", required=True)
        parser.add_argument("--servers")
        parser.add_argument("--available-now", action="store_true")
        parser.add_argument("--status-port", type=int, default=0)
        parser.add_argument("--lineage")
        parser.add_argument("--patience-s", type=float, default=600.0)
        given = parser.parse_args(arguments)
        return cls(
            given.file,
            given.home,
            given.master,
            given.servers,
            is_endless=not given.available_now,
            status_port=given.status_port,
            lineage=given.lineage,
            patience_s=given.patience_s,
        )
