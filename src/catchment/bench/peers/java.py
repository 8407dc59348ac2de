"""Apache Kafka's Java programs: the class path and a way to run one of its tools."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from catchment.bench.peers.maven import PeerUnavailable, classpath
from catchment.spark.launch.connector_jars import Artifact

KAFKA_VERSION = "4.3.1"
_KAFKA = (
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    Artifact("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
_APPLICATIONS = (
    Artifact("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
    Artifact("org.apache.kafka", "connect-file", KAFKA_VERSION),
    Artifact("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
    Artifact("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
)


def java_command() -> str:
    """The Java launcher on this machine."""
    java = shutil.which("java")
    if java is None:
        raise PeerUnavailable("java is not installed")
    return java


def kafka_classpath() -> str:
    """The class path of the Kafka broker and all its tools."""
    return classpath(_KAFKA)


def applications_classpath() -> str:
    """The class path of Kafka Connect, MirrorMaker and Kafka Streams, which are no part of the broker."""
    return classpath(_APPLICATIONS)


def run_tool(
    main_class: str,
    arguments: Sequence[str],
    timeout_seconds: float = 120,
    standard_input: str | bytes | None = None,
    *,
    virtual_machine: Sequence[str] = ("-Xmx512M",),
) -> subprocess.CompletedProcess[bytes]:
    """Run one of Kafka's tools to its end. The caller checks its exit code; its output is bytes."""
    return subprocess.run(
        [java_command(), *virtual_machine, "-cp", kafka_classpath(), main_class, *arguments],
        input=standard_input.encode() if isinstance(standard_input, str) else standard_input or b"",
        capture_output=True,
        timeout=timeout_seconds,
        check=False,
    )
