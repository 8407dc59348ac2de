"""A pipeline from its file, whichever form it has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.declaration.pipeline import Pipeline
from catchment.pipelines.declaration.python_files import run_file
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
        return read_yaml(file)
    if file.suffix == ".py":
        return pipeline_in(run_file(file), file).declared
    raise Mistakes([Mistake(None, f"{file}: a pipeline is a .py or a .yaml file")])


def pipeline_in(module: ModuleType, file: Path) -> Pipeline:
    """The one pipeline that a Python file makes."""
    found = list({id(one): one for one in vars(module).values() if isinstance(one, Pipeline)}.values())
    if len(found) != 1:
        raise Mistakes([Mistake(Location(str(file), 1), f"the file makes {len(found)} pipelines instead of one")])
    return found[0]
