"""Jars from Maven, fetched once by the ordinary client and kept in the user's cache.

Where they come from is Maven's own business: its settings name the repository, this module names only what is wanted.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

FETCH_TIMEOUT_SECONDS = 600


class PeerUnavailable(Exception):
    """A peer cannot be had on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact by its Maven coordinates; its runtime dependencies come with it."""

    group: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


def cache_directory() -> Path:
    """Where fetched peers are kept, by the rules of XDG."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "catchment" / "peers"


def classpath(artifacts: Sequence[Artifact]) -> str:
    """A Java class path of these artifacts and what they need at run time, fetched if this is the first time."""
    names = " ".join(map(str, artifacts))
    directory = cache_directory() / f"{artifacts[0].name}-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with directory.with_suffix(".lock").open("w") as lock:
            # A second process waits here for the first one's fetch, and then finds it done.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.is_dir():
                _fetch(artifacts, directory)
    return str(directory / "*")


def jar(artifact: Artifact) -> Path:
    """One artifact's jar without its dependencies, fetched if this is the first time."""
    path = cache_directory() / f"{artifact.name}-{artifact.version}.jar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
            _run_maven(
                ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={temporary}"], artifact, temporary
            )
            # Two processes may fetch it at once: each replaces the whole file.
            (Path(temporary) / path.name).replace(path)
    return path


def _fetch(artifacts: Sequence[Artifact], directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
        (Path(temporary) / "pom.xml").write_text(_project(artifacts))
        jars = Path(temporary) / "jars"
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        _run_maven(goal, artifacts[0], temporary)
        # The rename is the last step: a directory that exists is a directory that is whole.
        jars.rename(directory)


def _run_maven(arguments: Sequence[str], wanted: Artifact, directory: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerUnavailable("mvn is not installed, and it fetches the jars")
    try:
        finished = subprocess.run(
            [maven, "-q", "-B", *arguments],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise PeerUnavailable(f"mvn took more than {FETCH_TIMEOUT_SECONDS} s to fetch {wanted}") from late
    if finished.returncode != 0:
        raise PeerUnavailable(f"mvn could not fetch {wanted}: {finished.stdout.strip()[-500:]}")


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
