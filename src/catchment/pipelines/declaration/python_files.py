"""The Python files of an author, run as modules: a pipeline's own, those beside it that YAML names, and those of its tests."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from catchment.pipelines.errors import Location, Mistake, Mistakes


def run_file(file: Path) -> ModuleType:
    """A Python file as a module that may import others beside it; raises `Mistakes` with the line where it fails."""
    if file.suffix != ".py" or not file.is_file():
        raise Mistakes([Mistake(None, f"there is no Python file {file}")])
    path = os.path.abspath(file)
    # Under the name of one of Python's own modules, it would take the place of that.
    name = f"{file.stem}_" if file.stem in sys.stdlib_module_names else file.stem
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None, "the suffix is that of Python"
    assert specification.loader is not None, "a file has a loader"
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    if (folder := os.path.dirname(path)) != sys.path[0]:
        sys.path.insert(0, folder)
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(name, None)
        location = Location(str(file), _line(error, path))
        raise Mistakes([Mistake(location, f"{type(error).__name__}: {error}")]) from error
    return module


def _line(error: Exception, path: str) -> int:
    """The last line of the file that was run; of a file that it imports, the line of the import."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 1
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == path]
    return (lines[-1] if lines else None) or 1
