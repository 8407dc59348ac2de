"""The command `catchment pipeline` with a pipeline's file, and a broker with the topic that it reads."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from catchment.pipelines.driving.supervision.run_file import read_run
from catchment.pipelines.home import Home

COMMAND_S: Final = 400.0
TOPIC: Final = "reports"
SOURCES: Final = """
pipeline: city
parallelism: 1
sources:
  reports:
    topic: reports
    schema: id int, at timestamp
    event_time: at
    lateness: 1 minute
    on_error: quarantine
"""


class CommandedWorld:
    """One home, one file, one topic of two partitions."""

    def __init__(self, servers: str, folder: Path, stages: str) -> None:
        """`stages` is what follows the sources in the pipeline's file."""
        self.servers = servers
        self.folder = folder
        self.home = Home(folder / "home", "city")
        self.file = folder / "city.yaml"
        self.file.write_text(SOURCES + stages)
        admin = AdminClient({"bootstrap.servers": servers})
        [made] = admin.create_topics([NewTopic(TOPIC, 2)]).values()
        made.result(30)

    def send(self, numbers: range) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for number in numbers:
            producer.produce(TOPIC, json.dumps({"id": number, "at": datetime.now(UTC).isoformat()}))
        assert producer.flush(30) == 0

    def send_broken(self, count: int) -> None:
        """Records that do not decode."""
        producer = Producer({"bootstrap.servers": self.servers})
        for _ in range(count):
            producer.produce(TOPIC, b"{")
        assert producer.flush(30) == 0

    def command(self, verb: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        line = [
            sys.executable,
            "-m",
            "catchment.cli",
            "pipeline",
            verb,
            *map(str, arguments),
            "--home",
            str(self.home.root),
        ]
        return subprocess.run(line, capture_output=True, text=True, timeout=COMMAND_S)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return self.command("run", self.file, "--bootstrap-server", self.servers, "--master", "local[2]", *arguments)

    def status(self) -> dict[str, Any]:
        return read_run(self.home) or {}
