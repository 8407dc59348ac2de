"""The folder for everything that a run leaves in temporary files: removed when it ends, and by the next run if it was killed.

Spark, its workers and the JVM make folders of their own, and remove them only if they end by themselves.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "catchment-run-"
_LOCAL_DIRECTORIES: Final = "SPARK_LOCAL_DIRS"
_SHORT: Final = "/tmp"
_LONGEST_PATH: Final = 55
"""Spark and its workers have Unix sockets in it, with names of up to 45 bytes: a system takes little more than 100 in all."""


class Scratch:
    """One folder, below the directory for temporary files; it is made when the environment of a driver is."""

    def __init__(self) -> None:
        name = f"{_PREFIX}{os.urandom(6).hex()}"
        parent = tempfile.gettempdir()
        self.folder = Path(parent if len(os.fsencode(parent)) + len(name) < _LONGEST_PATH else _SHORT) / name

    def environment(self) -> dict[str, str]:
        """The variables by which a driver and all that it starts use the folder. Spark's own folders stay where the user wants them."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        folder = str(self.folder)
        return {"TMPDIR": folder, _LOCAL_DIRECTORIES: os.environ.get(_LOCAL_DIRECTORIES) or folder}

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_scratch(noted: object) -> None:
    """Remove the folder of an earlier run, as that run noted it."""
    if isinstance(noted, str) and (folder := Path(noted)).name.startswith(_PREFIX) and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
