"""A class-data archive of Kafka's tools, with which a tool starts with a third of the work.

Tests start tools by the dozen, and a tool spends most of its second loading and verifying the same classes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

from catchment.bench.peers.java import java_command, kafka_classpath, run_tool
from catchment.testing.embedded import Broker

# A tool ends before a machine that optimises would have become fast. What the machine itself logs would be in the output.
SHORT_LIVED = ("-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable")
_TIMEOUT_S = 600.0


@cache
def archive_options() -> tuple[str, ...]:
    """What makes Java use the archive, which lies beside the jars; nothing where this Java can write none."""
    version = subprocess.run([java_command(), "-version"], capture_output=True, check=True).stderr
    jars = Path(kafka_classpath()).parent
    archive = jars.with_name(f"{jars.name}-{hashlib.sha256(version).hexdigest()[:12]}.jsa")
    if not archive.exists():
        _write(archive)
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def _write(archive: Path) -> None:
    """Archive what a tool has loaded that creates a topic, writes to it and reads from it."""
    unfinished = archive.with_suffix(f".{os.getpid()}")
    with Broker() as broker:
        run_tool(
            "org.apache.kafka.tools.EndToEndLatency",
            [
                *("--bootstrap-server", broker.bootstrap_servers, "--topic", "archived"),
                *("--num-records", "1", "--record-size", "1", "--producer-acks", "all"),
            ],
            _TIMEOUT_S,
            virtual_machine=(*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={unfinished}"),
        )
    if unfinished.exists():
        # The rename is the last step: two processes may write it at once, and no reader sees half of it.
        unfinished.rename(archive)
