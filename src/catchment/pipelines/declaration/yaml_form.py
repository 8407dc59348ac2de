"""A pipeline as a YAML file, with the line of every key for error messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Final

import yaml
from yaml.reader import ReaderError

from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.errors import Location, Mistake, Mistakes, Path

TESTS: Final = "tests"
"""The one key of a file that does not belong to the pipeline."""
_LITERAL: Final = "|"
_NO_YAML: Final = "this is not YAML"


def read_yaml(file: FilePath) -> Declared:
    """The declarations of a pipeline; raises if the file is no YAML at all."""
    declared = read_tree(file)
    declared.tree.pop(TESTS, None)
    return declared


def read_tree(file: FilePath) -> Declared:
    """Everything in a file, whatever it says."""
    text = _text(file)
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise _mistaken(file, 1, "a pipeline is a mapping that begins with `pipeline: NAME`")
        if unusable := list(_unusable(root, loader, str(file))):
            raise Mistakes(unusable)
        tree = loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _mistaken(file, line, f"{_NO_YAML}: {error.problem}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _mistaken(file, line, f"{_NO_YAML}: {error.reason}") from None
    except RecursionError:
        raise _mistaken(file, 1, "this is nested too deeply") from None
    locations: dict[Path, Location] = {}
    mistakes: list[Mistake] = []
    _note_locations(root, (), str(file), locations, mistakes)
    return Declared(tree, locations, mistakes)


def _unusable(node: yaml.Node, loader: yaml.SafeLoader, file: str, around: tuple[int, ...] = ()) -> Iterator[Mistake]:
    """Invalid values, such as the 45th of a month, keys that are not names, and nodes that contain themselves."""
    location = Location(file, node.start_mark.line + 1)
    if id(node) in around:
        yield Mistake(location, f"{_NO_YAML}: this is a part of itself")
    elif isinstance(node, yaml.ScalarNode):
        try:
            loader.construct_object(node)
        except (yaml.MarkedYAMLError, ValueError) as error:
            yield Mistake(location, f"{_NO_YAML}: {getattr(error, 'problem', error)}")
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _unusable(value, loader, file, (*around, id(node)))
    else:
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                yield Mistake(Location(file, key.start_mark.line + 1), f"{_NO_YAML}: a key is a name")
            yield from _unusable(value, loader, file, (*around, id(node)))


def _text(file: FilePath) -> str:
    content = file.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _mistaken(file, content.count(b"\n", 0, error.start) + 1, f"this is not UTF-8: {error.reason}") from None


def _mistaken(file: FilePath, line: int, what: str) -> Mistakes:
    return Mistakes([Mistake(Location(str(file), line), what)])


def _note_locations(
    node: yaml.Node, path: Path, file: str, locations: dict[Path, Location], mistakes: list[Mistake]
) -> None:
    locations.setdefault(path, Location(file, node.start_mark.line + 1))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, key.value)
            if below in locations:
                mistakes.append(Mistake(Location(file, key.start_mark.line + 1), f"{key.value} is given twice"))
            locations[below] = Location(file, key.start_mark.line + 1)
            _note_locations(value, below, file, locations, mistakes)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _note_locations(value, (*path, number), file, locations, mistakes)
    elif isinstance(node, yaml.ScalarNode) and node.style == _LITERAL:
        # Each line of such a text is one of the file: a mistake in a stage's SQL is in one of them.
        for number in range(1, node.value.count("\n") + 2):
            locations[*path, number] = Location(file, node.start_mark.line + 1 + number)
