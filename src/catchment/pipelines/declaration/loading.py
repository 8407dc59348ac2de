"""A pipeline from its file, a `.py` or a `.yaml`, with the Python files beside it that hold functions of stages."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.declaration.pipeline import Pipeline
from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.declaration.yaml_form import read_yaml
from catchment.pipelines.errors import Location, Mistake, Mistakes, Unresolved


class Loaded(NamedTuple):
    """A checked pipeline, the folder that paths in it are relative to, and what it was read from."""

    specification: PipelineSpecification
    folder: Path
    declared: Declared

    @contextmanager
    def located(self) -> Iterator[None]:
        """Around what resolves its columns: what is unresolved is raised as `Mistakes`, each with its line."""
        try:
            yield
        except Unresolved as error:
            found = self.declared.located(error.found)
            raise Mistakes(sorted(found, key=lambda one: one.location or Location("", 0))) from error


def load(file: Path, *, is_to_run: bool = False, is_to_plan: bool = False) -> Loaded:
    """The pipeline of a `.py` or `.yaml` file; raises `Mistakes`.

    To be run, its environment variables must be set as well. To be planned, its columns are left to Spark, which finds all mistakes
    in them at once.
    """
    declared = _declared(file)
    specification = declared.check(file.parent, is_to_run=is_to_run, has_columns_checked=not is_to_plan)
    return Loaded(specification, file.parent, declared)


def name_in(file: Path) -> str:
    """The name of the pipeline in a file, whatever else may be wrong with it; raises `Mistakes`."""
    declared = _declared(file)
    if not isinstance(name := declared.tree.get("pipeline"), str):
        raise Mistakes([Mistake(declared.location(("pipeline",)), "the pipeline has no name")])
    return name


def _declared(file: Path) -> Declared:
    if not file.is_file():
        raise Mistakes([Mistake(None, f"there is no file {file}")])
    if file.suffix in (".yaml", ".yml"):
        declared = read_yaml(file)
        _find_functions(declared, file)
        return declared
    if file.suffix == ".py":
        return pipeline_in(run_file(file), file).declared
    raise Mistakes([Mistake(None, f"{file}: a pipeline is a .py or a .yaml file")])


def pipeline_in(module: ModuleType, file: Path) -> Pipeline:
    """The one pipeline that a Python file makes."""
    found = list({id(one): one for one in vars(module).values() if isinstance(one, Pipeline)}.values())
    if len(found) != 1:
        raise Mistakes([Mistake(Location(str(file), 1), f"the file makes {len(found)} pipelines instead of one")])
    return found[0]


def _find_functions(declared: Declared, file: Path) -> None:
    """`function: steps.py:board` names a function of a Python file beside this one, which is run once for all stages."""
    stages = declared.tree.get("stages")
    modules: dict[str, ModuleType | Mistakes] = {}
    for name, stage in stages.items() if isinstance(stages, dict) else ():
        if not isinstance(stage, dict) or not isinstance(named := stage.get("function"), str):
            continue
        path = ("stages", name, "function")
        beside = named.partition(":")[0]
        if beside not in modules:
            modules[beside] = _module(file.parent / beside)
        try:
            stage["function"] = _function(named, modules[beside])
        except Mistakes as error:
            stage["function"] = _not_found
            location = declared.location(path)
            declared.mistakes += [
                one if one.location else Mistake(location, f"{'.'.join(map(str, path))}: {one.what}")
                for one in error.found
            ]


def _module(file: Path) -> ModuleType | Mistakes:
    try:
        return run_file(file)
    except Mistakes as error:
        return error


def _function(named: str, module: ModuleType | Mistakes) -> Callable[..., Any]:
    file, _, function = named.partition(":")
    if not function:
        raise Mistakes([Mistake(None, f"{named!r} names no function; write it like steps.py:board")])
    if isinstance(module, Mistakes):
        raise module
    found: Callable[..., Any] | None = getattr(module, function, None)
    if found is None:
        raise Mistakes([Mistake(None, f"{file} has no function {function}")])
    return found


def _not_found(*rows: Any) -> Any:
    """Stands where a function cannot be found, so that its stage is not reported as well for having none."""


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
