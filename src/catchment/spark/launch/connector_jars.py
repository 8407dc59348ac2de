"""The jars of Spark's own Kafka connector, which real-time mode needs: fetched once by Maven and kept in the user's cache.

They are fetched one by one, without what their poms name: Spark's parent pom points to a second repository, which a
machine behind a mirror does not reach, and the rest of what the connector needs is in PySpark already. The versions are the
newest that Maven Central has of each; they run on Spark 4.3. Maven's own settings choose the repository.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from catchment.client.errors import ClientError
from catchment.spark.launch.java import cache_directory

FETCH_TIMEOUT_S: Final = 600


class JarsUnavailable(ClientError):
    """Jars that are not available on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact by its Maven coordinates."""

    group: str
    name: str
    version: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


CONNECTOR: Final = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.1"),
    Artifact("org.apache.commons", "commons-pool2", "2.12.1"),
)


def jars_directory() -> Path:
    """Where the jars are kept. Without Maven, they can be put there by hand."""
    directory = cache_directory()
    if directory is None:
        raise JarsUnavailable("there is no directory to keep jars in", "Set HOME or XDG_CACHE_HOME to one.")
    return directory / "jars"


def connector_jars(fetching: Callable[[Artifact], None] = lambda artifact: None) -> list[Path]:
    """The connector's jars; missing ones are fetched, after a call of `fetching` for each."""
    directory = jars_directory()
    for artifact in missing_jars():
        fetching(artifact)
        fetch_jar(artifact, directory)
    return [directory / artifact.file_name for artifact in CONNECTOR]


def missing_jars() -> list[Artifact]:
    """The jars that Maven has to fetch; raises JarsUnavailable if Maven is not installed."""
    directory = jars_directory()
    missing = [artifact for artifact in CONNECTOR if not (directory / artifact.file_name).exists()]
    if missing and shutil.which("mvn") is None:
        raise JarsUnavailable(
            "Spark's own Kafka connector is not here, and Maven, which fetches it, is not installed",
            "Install Maven (`apt install maven`, `brew install maven`), or put "
            f"{', '.join(artifact.file_name for artifact in missing)} into {directory} yourself.",
        )
    return missing


def fetch_jar(artifact: Artifact, directory: Path) -> None:
    """Fetch one jar without its dependencies, whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as temporary:
        run_maven(
            ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={temporary}"], artifact, Path(temporary)
        )
        # Two processes may fetch it at once: each replaces the whole file.
        (Path(temporary) / artifact.file_name).replace(directory / artifact.file_name)


def run_maven(arguments: Sequence[str], wanted: Artifact, directory: Path) -> None:
    """Run Maven to fetch an artifact; JarsUnavailable carries the end of its output if it fails."""
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailable("mvn is not installed, and it fetches the jars", "Install Maven.")
    try:
        finished = subprocess.run(
            [maven, "-q", "-B", *arguments],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise JarsUnavailable(f"mvn took more than {FETCH_TIMEOUT_S} s to fetch {wanted}") from late
    if finished.returncode != 0:
        raise JarsUnavailable(f"mvn could not fetch {wanted}: {finished.stdout.strip()[-500:]}")
