"""Signatures of pipelines that were planned before, so that `plan` of an unchanged file needs no Spark.

They are found by all that they are made of: the declarations, the code of the functions with all that it names in the author's own
modules, the columns of the topics, and the versions of Catchment, PySpark and Python. `run` always asks Spark.

Gaps
    What a function reads while it is called, a file or an environment variable, is not seen: a change of it shows when the
    pipeline is run.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pyspark import cloudpickle

from catchment.pipelines.graph import Graph
from catchment.pipelines.planning.resolving import columns_of
from catchment.pipelines.planning.signature import Current
from catchment.pipelines.planning.signing import sink_target
from catchment.spark.launch.java import cache_directory

_FOLDER: Final = "plans"
_MOST_KEPT: Final = 64


def key_of(graph: Graph, folder: Path) -> str | None:
    """What the signatures of a pipeline are found by; None if its code cannot be distinguished from other code."""
    specification = graph.specification
    topics = {**specification.sources, **specification.tables}
    try:
        parts = {
            "versions": [version("catchment-streaming"), version("pyspark"), platform.python_version()],
            "folder": str(folder.resolve()),
            "declared": specification.model_dump(),
            "functions": {name: stage.function for name, stage in specification.stages.items()},
            "targets": [sink_target(sink, folder).place for sink in specification.sinks],
            "columns": {name: columns_of(topic, folder).json() for name, topic in topics.items()},
        }
        text = json.dumps(parts, sort_keys=True, default=_code)
    except Exception:
        # Whatever is wrong with the pipeline is reported where it is planned.
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def recall(key: str | None) -> Current | None:
    """The signatures that were made last time."""
    if key is None or (folder := _folder()) is None:
        return None
    try:
        return Current.model_validate_json((folder / key).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def remember(key: str | None, current: Current) -> None:
    """Keep signatures for the next time, those of the last pipelines that were planned."""
    if key is None or (folder := _folder()) is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as temporary:
            temporary.write(current.model_dump_json())
        os.replace(temporary.name, folder / key)
        newest_first = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in newest_first[_MOST_KEPT:]:
            file.unlink(missing_ok=True)
    except OSError:
        # A cache that cannot be written costs the next plan some seconds.
        return


def _folder() -> Path | None:
    directory = cache_directory()
    return None if directory is None else directory.parent / _FOLDER


def _code(value: object) -> str:
    """A function by its code, and anything else that is declared by its text."""
    if not callable(value):
        return str(value)
    # PySpark leaves this function without types.
    pickle: Callable[[Any], bytes] = cloudpickle.dumps
    return hashlib.sha256(pickle(value)).hexdigest()
