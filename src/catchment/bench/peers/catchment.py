"""Our own servers as child processes: the broker, started as a user would start it, and the ceiling."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from catchment.bench.peers.server import Server


class CatchmentServer(Server):
    """One Catchment broker with default settings and the given ones."""

    name = "catchment"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = dict(settings or {})

    def command(self, directory: Path) -> Sequence[str]:
        """The command line of `catchment broker`."""
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(directory / "data"),
            **self._settings,
        }
        options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        return (sys.executable, "-m", "catchment.cli", "broker", *options)

    def environment(self, directory: Path) -> Mapping[str, str]:
        """With bytecode beside the sources, as pip installs it: a checkout without write permission is compiled at each start."""
        return {"PYTHONDONTWRITEBYTECODE": ""}


class CeilingServer(Server):
    """A server that parses requests and responds but stores nothing."""

    name = "ceiling"
    deletes_topics = False

    def command(self, directory: Path) -> Sequence[str]:
        """The command line of the ceiling."""
        return (sys.executable, "-m", "catchment.bench.ceiling", "--port", str(self.port))
