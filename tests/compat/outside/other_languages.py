"""Clients in Go and JavaScript, which all take the same commands and report in JSON what they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.compat.outside.toolchains import go_program, node_modules
from tests.compat.program import APPLICATIONS, Program

CLIENTS = ("sarama", "franz-go", "kafka-go", "kafkajs")
CODECS = dict.fromkeys(CLIENTS, ("none", "gzip", "snappy", "lz4", "zstd")) | {"kafkajs": ("none", "gzip")}
"""What each compresses with by itself."""
TRANSACTIONAL = ("sarama", "franz-go", "kafkajs")
"""Those that offer transactions to applications."""


class LanguageProgram(Program):
    """One command of one client."""

    def __init__(self, client: str, arguments: list[str], directory: Path) -> None:
        super().__init__([*_command(client), client, *arguments], directory)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Its reports that have this field."""
        return [event for event in map(json.loads, self.lines()) if kind in event]

    def finish(self) -> None:
        """Let it run to its end, which must be a good one."""
        with self:
            assert self.wait() == 0, self.tail()


def _command(client: str) -> list[str]:
    if client != "kafkajs":
        return [str(go_program("go"))]
    modules = node_modules("javascript")
    return ["env", f"NODE_PATH={modules}", "node", str(APPLICATIONS / "javascript" / "clients.js")]
