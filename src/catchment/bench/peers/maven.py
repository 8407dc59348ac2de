"""Jars from Maven, fetched once and kept in the user's cache.

Maven's own settings name the repository; this module names only the artifacts.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from catchment.spark.launch.connector_jars import Artifact, JarsUnavailable, run_maven
from catchment.spark.launch.connector_jars import connector_jars as fetched_jars


class PeerUnavailable(Exception):
    """A peer that is not available on this machine. The message says what is missing."""


def cache_directory() -> Path:
    """The cache directory of fetched peers, by the XDG rules."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "catchment" / "peers"


def classpath(artifacts: Sequence[Artifact]) -> str:
    """A Java class path of these artifacts and their runtime dependencies, fetched on first use."""
    names = " ".join(map(str, artifacts))
    directory = kept(artifacts[0].name, names.encode(), lambda jars: _fetch(artifacts, jars))
    return str(directory / "*")


def kept(name: str, recipe: bytes, make: Callable[[Path], None]) -> Path:
    """A directory of the cache that `make` has filled, once for each recipe, even if several processes ask at once."""
    directory = cache_directory() / f"{name}-{hashlib.sha256(recipe).hexdigest()[:12]}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with directory.with_name(f"{directory.name}.lock").open("w") as lock:
            # A second process waits here for the first one, and then finds the directory.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.is_dir():
                _make(directory, make)
    return directory


def _make(directory: Path, make: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
        unfinished = Path(temporary) / directory.name
        unfinished.mkdir()
        make(unfinished)
        # The rename is the last step, so a directory that exists is complete.
        unfinished.rename(directory)


def _fetch(artifacts: Sequence[Artifact], directory: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / "pom.xml").write_text(_project(artifacts))
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={directory}"]
        try:
            run_maven(goal, artifacts[0], Path(temporary))
        except JarsUnavailable as error:
            raise PeerUnavailable(str(error)) from error


def _project(artifacts: Sequence[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{escape(artifact.group)}</groupId><artifactId>{escape(artifact.name)}</artifactId>"
        f"<version>{escape(artifact.version)}</version></dependency>"
        for artifact in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>catchment</groupId><artifactId>peer</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def connector_jars() -> list[Path]:
    """The jars of Spark's own Kafka connector, from the cache or from Maven. Raises PeerUnavailable."""
    try:
        return fetched_jars()
    except JarsUnavailable as error:
        raise PeerUnavailable(str(error)) from error
