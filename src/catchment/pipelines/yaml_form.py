"""A pipeline as a YAML file, with the line of every key remembered for error messages."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any, Final

import yaml

from catchment.pipelines.declared import Declared
from catchment.pipelines.mistakes import Mistake, Mistakes, Path, Place

TESTS: Final = "tests"
"""The one key of a file that is no part of the pipeline."""


def read_yaml(file: FilePath) -> Declared:
    """The declarations of a pipeline; raises if the file is no YAML at all."""
    declared = read_tree(file)
    declared.tree.pop(TESTS, None)
    _find_functions(declared, file)
    return declared


def read_tree(file: FilePath) -> Declared:
    """Everything in a file, whatever it says."""
    try:
        with file.open() as stream:
            root = yaml.compose(stream, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Mistakes([Mistake(Place(str(file), line), f"this is not YAML: {error.problem}")]) from None
    if not isinstance(root, yaml.MappingNode):
        raise Mistakes([Mistake(Place(str(file), 1), "a pipeline is a mapping that begins with `pipeline: NAME`")])
    places: dict[Path, Place] = {}
    mistakes: list[Mistake] = []
    _note_places(root, (), str(file), places, mistakes)
    return Declared(yaml.SafeLoader("").construct_document(root), places, mistakes)


def _note_places(node: yaml.Node, path: Path, file: str, places: dict[Path, Place], mistakes: list[Mistake]) -> None:
    places.setdefault(path, Place(file, node.start_mark.line + 1))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, key.value)
            if below in places:
                mistakes.append(Mistake(Place(file, key.start_mark.line + 1), f"{key.value} is given twice"))
            places[below] = Place(file, key.start_mark.line + 1)
            _note_places(value, below, file, places, mistakes)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _note_places(value, (*path, number), file, places, mistakes)


def _find_functions(declared: Declared, file: FilePath) -> None:
    """`function: steps.py:board` names a function of a Python file beside this one."""
    stages = declared.tree.get("stages")
    for name, stage in stages.items() if isinstance(stages, dict) else ():
        if isinstance(stage, dict) and isinstance(stage.get("function"), str):
            path = ("stages", name, "function")
            try:
                stage["function"] = _function(stage["function"], file.parent)
            except (OSError, ImportError, AttributeError, SyntaxError, ValueError) as error:
                stage["function"] = _not_found
                declared.mistakes.append(Mistake(declared.place(path), f"{'.'.join(path)}: {error}"))


def _not_found(*rows: Any) -> Any:
    """Stands where a function cannot be found, so that its stage is not told as well that it needs one."""


def _function(named: str, folder: FilePath) -> Callable[..., Any]:
    file, _, function = named.partition(":")
    if not function:
        raise ValueError(f"{named!r} names no function; write it like steps.py:board")
    place = folder / file
    specification = importlib.util.spec_from_file_location(place.stem, place)
    if specification is None or specification.loader is None:
        raise ValueError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, function)
    return found
