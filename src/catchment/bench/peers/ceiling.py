"""The ceiling as a child process: the same client against a server that stores nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from catchment.bench.peers.server import Server


class CeilingServer(Server):
    """A server that parses and answers, no more."""

    name = "ceiling"
    deletes_topics = False

    def command(self, directory: Path) -> Sequence[str]:
        """The command line of the ceiling."""
        return (sys.executable, "-m", "catchment.bench.ceiling", "--port", str(self.port))
