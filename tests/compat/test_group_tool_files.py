"""Files of positions go from `kafka-consumer-groups` to `catchment group reset`, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.broker.handlers.wire import produce
from tests.compat.java_tool import java_tool, require_java
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.testing.embedded import Broker

_TOOL = "ConsumerGroupCommand"
_PACKAGE = "org.apache.kafka.tools.consumer.group"


def test_either_tool_reads_what_the_other_wrote(broker: Broker, make_topic: Callable[..., str], tmp_path: Path) -> None:
    require_java()
    topic, servers = make_topic(2), broker.bootstrap_servers
    produce(broker, topic, [b"x"] * 10, partition=1)
    group = f"readers-of-{topic}"
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"

    def catchment(*arguments: str | os.PathLike[str]) -> str:
        result = CliRunner().invoke(app, ["group", "reset", group, *map(str, arguments), "-b", servers])
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def kafka(*arguments: str | os.PathLike[str]) -> str:
        command = ["--bootstrap-server", servers, "--group", group, "--reset-offsets", *map(str, arguments)]
        return java_tool(_TOOL, *command, package=_PACKAGE).decode()

    ours.write_text(catchment("--topic", topic, "--to-offset", "4", "--csv"))
    kafka("--from-file", ours, "--execute")
    theirs.write_text(kafka("--all-topics", "--to-current", "--export", "--dry-run"))
    assert sorted(theirs.read_text().split()) == sorted(ours.read_text().split()) == [f"{topic},0,0", f"{topic},1,4"]
    catchment("--all-topics", "--to-latest", "--execute")
    catchment("--from-file", theirs, "--execute")
    assert catchment("--all-topics", "--by", "0", "--csv").split() == [f"{topic},0,0", f"{topic},1,4"]
