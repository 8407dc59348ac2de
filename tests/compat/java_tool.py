"""Run a Java tool of Apache Kafka, or skip the test where Java or the jars are not available."""

from __future__ import annotations

from functools import cache

import pytest
from tests.compat.java_archive import SHORT_LIVED, archive_options

from catchment.bench.peers.java import java_command, kafka_classpath, run_tool
from catchment.bench.peers.maven import PeerUnavailable

TIMEOUT_S = 600.0


@cache
def java_missing() -> str | None:
    """Why Kafka's Java programs cannot run here."""
    try:
        java_command()
        kafka_classpath()
    except PeerUnavailable as reason:
        return str(reason)
    return None


def require_java() -> None:
    if (reason := java_missing()) is not None:
        pytest.skip(reason)


def java_tool(
    name: str,
    *arguments: str,
    standard_input: bytes = b"",
    package: str = "org.apache.kafka.tools",
    with_errors: bool = False,
) -> bytes:
    """The tool's output, optionally with its standard error; the test fails if the tool fails."""
    require_java()
    options = (*SHORT_LIVED, *archive_options())
    finished = run_tool(f"{package}.{name}", arguments, TIMEOUT_S, standard_input, virtual_machine=options)
    output = finished.stdout + finished.stderr
    assert finished.returncode == 0, output.decode(errors="replace")[-3000:]
    return output if with_errors else finished.stdout
