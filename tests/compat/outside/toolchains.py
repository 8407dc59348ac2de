"""What clients in other languages, and those whose dependencies are not ours, are built or installed with.

Each is made once, in the cache where Kafka's jars are too, and made again when what it is made from has changed. Where a tool is
missing, the tests that need it skip and say so. Registries are those of the tools' own settings.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.compat.program import APPLICATIONS, VIRTUAL_MACHINE, Program

from catchment.bench.peers.java import java_command
from catchment.bench.peers.maven import PeerUnavailable, classpath, kept
from catchment.spark.launch.connector_jars import Artifact, JarsUnavailable, fetch_jar

_TIMEOUT_S = 900


class Unavailable(Exception):
    """A tool is not on this machine, or a registry is not reached; the message says which."""


def go_program(name: str) -> Path:
    """The executable of a Go module of the applications."""
    source = APPLICATIONS / name

    def build(directory: Path) -> None:
        # It ends before an optimised one would have paid for its compilation.
        options = ["-gcflags=all=-N -l", "-ldflags=-s -w", "-o", str(directory / name)]
        _fetch(["go", "mod", "download"], source)
        _run(["env", "CGO_ENABLED=0", "go", "build", *options, "."], source)

    return _made(f"go-{name}", _recipe(source), build) / name


def node_modules(name: str) -> Path:
    """The folder with the libraries that an application's `package.json` names."""
    source = APPLICATIONS / name / "package.json"

    def install(directory: Path) -> None:
        shutil.copy(source, directory)
        _fetch(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"], directory)

    return _made(f"npm-{name}", source.read_bytes(), install) / "node_modules"


def python_with(name: str) -> Path:
    """An interpreter with the packages of an application's own requirements and nothing else."""
    requirements = APPLICATIONS / name / "requirements.txt"

    def install(directory: Path) -> None:
        _run([sys.executable, "-m", "venv", str(directory)], directory)
        pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # All that is needed is named with its version: there is nothing to resolve.
        _fetch([*pip, "--no-deps", "--no-compile", "--requirement", str(requirements)], directory)

    recipe = sys.version.encode() + requirements.read_bytes()
    return _made(f"python-{name}", recipe, install) / "bin" / "python"


def jar(artifact: Artifact) -> Path:
    """One jar, without what it needs."""

    def fetch(directory: Path) -> None:
        try:
            fetch_jar(artifact, directory)
        except JarsUnavailable as reason:
            raise Unavailable(str(reason)) from reason

    return _made(artifact.name, str(artifact).encode(), fetch) / artifact.file_name


class JavaApplication(Program):
    """A source file, compiled once, that runs with jars of its own; Spring wants the names of parameters."""

    def __init__(
        self, source: Path, main: str, artifacts: Sequence[Artifact], arguments: Sequence[str], directory: Path
    ) -> None:
        try:
            java, jars = java_command(), classpath(artifacts)
        except PeerUnavailable as reason:
            pytest.skip(str(reason))

        def compile_source(classes: Path) -> None:
            _run(["javac", "-parameters", "-proc:none", "-d", str(classes), "-cp", jars, str(source)], classes)

        classes = _made(f"java-{source.stem.lower()}", source.read_bytes() + jars.encode(), compile_source)
        super().__init__([java, *VIRTUAL_MACHINE, "-cp", f"{classes}:{jars}", main, *arguments], directory)


def _recipe(source: Path) -> bytes:
    files = sorted(path for path in source.iterdir() if path.is_file())
    return b"".join(path.name.encode() + path.read_bytes() for path in files)


def _made(name: str, recipe: bytes, make: Callable[[Path], None]) -> Path:
    try:
        return kept(name, recipe, make)
    except Unavailable as reason:
        pytest.skip(str(reason))


def _fetch(command: Sequence[str], directory: Path) -> None:
    finished = _finished(command, directory)
    if finished.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {(finished.stdout + finished.stderr)[-500:]}")


def _run(command: Sequence[str], directory: Path) -> None:
    finished = _finished(command, directory)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def _finished(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed")
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
