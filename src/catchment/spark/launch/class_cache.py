"""Start Spark's JVM in half the time, with a cache of its classes; Java 25 and newer keeps them linked as well.

The first session of a machine finds none. When its process ends, it leaves behind a training run of low priority that makes
one, up to 180 MB in the user's cache directory. The JVM checks the cache against itself, its class path and a checksum, and does
without one that does not fit or is damaged. `CATCHMENT_SPARK_START_UP_CACHE=off` turns both use and training off.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pyspark

from catchment.spark.launch.java import Java, JavaMissing, cache_directory, find_java

SWITCH: Final = "CATCHMENT_SPARK_START_UP_CACHE"
# One for each pair of PySpark and Java in use; those of environments that are gone are dropped.
MOST_CACHES: Final = 4
_AHEAD_OF_TIME: Final = 25
# Without the check of its content, a cache with a flipped bit could take the JVM down.
_CHECKED: Final = "-XX:+UnlockDiagnosticVMOptions -XX:+VerifySharedSpaces"
# The log helps only to tune the JVM.
_QUIET: Final = "-Xlog:cds*=off"


def start_up_options(java: Java) -> str:
    """JVM options that use the cache; where there is none yet, it is made after this process has ended."""
    if os.environ.get(SWITCH) == "off":
        return ""
    path = cache_path(java)
    try:
        is_there = path is not None and path.exists()
    except OSError:
        # The cache directory belongs to another user.
        return ""
    if not is_there:
        if path is not None:
            _train_at_exit()
        return ""
    # Spark splits the options at spaces.
    return "" if " " in str(path) else f"-XX:{_names(java).use}={path} {_CHECKED} {_names(java).quiet}"


def train_if_missing() -> None:
    """Have the cache made after this process has ended, if there is none: for one whose Spark is in a process that is killed."""
    with suppress(JavaMissing):
        start_up_options(find_java())


def recording_options(java: Java, path: Path) -> str:
    """JVM options that write the cache when the JVM ends."""
    return f"-XX:{_names(java).record}={path} {_names(java).quiet}"


class _Names(NamedTuple):
    """What the JVM's options are called."""

    use: str
    record: str
    quiet: str


def _names(java: Java) -> _Names:
    if java.version >= _AHEAD_OF_TIME:
        return _Names("AOTCache", "AOTCacheOutput", f"-Xlog:aot*=off {_QUIET}")
    return _Names("SharedArchiveFile", "ArchiveClassesAtExit", _QUIET)


def cache_path(java: Java) -> Path | None:
    """Where the cache of this Java and this PySpark is kept. The JVM compares class paths, so where they are counts too."""
    directory = cache_directory()
    if directory is None:
        return None
    release = java.home / "release"
    build = release.read_text() if release.exists() else ""
    places = f"{java.home}\0{build}\0{Path(pyspark.__file__).parent}"
    key = hashlib.sha256(places.encode()).hexdigest()[:12]
    return directory / "start-up" / f"spark-{pyspark.__version__}-java-{java.version}-{key}.cache"


def drop_oldest_caches(directory: Path) -> None:
    newest_first = sorted(directory.glob("*.cache"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[MOST_CACHES:]:
        path.unlink(missing_ok=True)


@cache
def _train_at_exit() -> None:
    """Once a process, however many sessions it makes."""
    atexit.register(_start_training)


def _start_training() -> None:
    subprocess.Popen(
        [sys.executable, "-m", "catchment.spark.launch.class_cache_training"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
