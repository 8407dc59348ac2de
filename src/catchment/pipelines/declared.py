"""From what was read out of a file, or called in Python, to a checked specification with all its mistakes told at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from catchment.pipelines.mistakes import Mistake, Mistakes, Place
from catchment.pipelines.specification import PipelineSpecification

Path = tuple[str | int, ...]
"""The keys and numbers that lead to a declaration, such as ("sources", "reports", "lateness")."""

_READ_IN_SQL: Final = re.compile(r"\b(?:from|join)\s+(`?[\w-]+`?(?:\s*,\s*`?[\w-]+`?)*)", re.IGNORECASE)


@dataclass
class Declared:
    """Declarations as written, and the lines where they were."""

    tree: dict[str, Any]
    places: dict[Path, Place] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def place(self, path: Path) -> Place | None:
        """Of the declaration itself, or of the nearest one around it."""
        for length in range(len(path), -1, -1):
            if (found := self.places.get(path[:length])) is not None:
                return found
        return None

    def invalid(self, error: ValidationError, under: Path = ()) -> list[Mistake]:
        """What Pydantic found, each with its place; `under` is where in the file the declaration is that it looked at."""
        found = [((*under, *_written(one["loc"])), one) for one in error.errors()]
        return [Mistake(self.place(path), f"{_named(path)}: {_said(one)}") for path, one in found]

    def check(self) -> PipelineSpecification:
        """The specification; raises all that is wrong with its parts and with how they fit together."""
        found = list(self.mistakes)
        try:
            specification = PipelineSpecification.model_validate(_with_inputs(self.tree))
        except ValidationError as error:
            raise Mistakes(found + self.invalid(error)) from None
        found += [Mistake(self.place(path), what) for path, what in misfits(specification)]
        if found:
            raise Mistakes(found)
        return specification


def _with_inputs(tree: dict[str, Any]) -> dict[str, Any]:
    """The declarations with `from` of SQL stages that do not say it: what of the pipeline their SQL reads."""
    stages = tree.get("stages")
    if not isinstance(stages, dict):
        return tree
    known = {name for kind in ("sources", "tables", "stages") for name in tree.get(kind) or ()}
    return tree | {"stages": {name: _with_input(name, stage, known) for name, stage in stages.items()}}


def _with_input(name: str, stage: Any, known: set[str]) -> Any:
    if not isinstance(stage, dict) or stage.get("from") or not isinstance(stage.get("sql"), str):
        return stage
    read = [one.strip(" `\n\t") for listed in _READ_IN_SQL.findall(stage["sql"]) for one in listed.split(",")]
    found = list(dict.fromkeys(one for one in read if one in known and one != name))
    return stage | {"from": found} if found else stage


def misfits(specification: PipelineSpecification) -> Iterator[tuple[Path, str]]:
    """Names that nobody has, or two; circles; and what does not go together across declarations."""
    sources, tables, stages = specification.sources, specification.tables, specification.stages
    kinds: dict[str, str] = {}
    for kind, named in (("sources", sources), ("tables", tables), ("stages", stages)):
        for name in named:
            if name in kinds:
                yield (kind, name), f"the name {name} is taken: {kinds[name]} has it too"
            kinds[name] = kind
    for name, stage in stages.items():
        yield from _misfits_of_stage(specification, name, kinds)
        if name in _reached_from(stage.from_, stages):
            yield ("stages", name, "from"), f"stage {name} reads itself by way of {', '.join(stage.from_)}"
    outlets: list[tuple[Path, str]] = [(("sinks", number), one.from_) for number, one in enumerate(specification.sinks)]
    outlets += [(("alerts", name), one.from_) for name, one in specification.alerts.items()]
    for path, wanted in outlets:
        if kinds.get(wanted) not in ("stages", "sources"):
            yield (*path, "from"), _unknown(wanted, [*stages, *sources])
    names = [one.name for one in specification.sinks if one.name]
    for number, one in enumerate(specification.sinks):
        if one.name and names.count(one.name) > 1:
            yield ("sinks", number), f"two sinks are named {one.name}"


def _misfits_of_stage(
    specification: PipelineSpecification, name: str, kinds: Mapping[str, str]
) -> Iterator[tuple[Path, str]]:
    stage = specification.stages[name]
    streams = [one for one in stage.from_ if kinds.get(one) in ("sources", "stages")]
    for wanted in stage.from_:
        if wanted not in kinds:
            yield ("stages", name, "from"), _unknown(wanted, [one for one in kinds if one != name])
    if not streams and all(one in kinds for one in stage.from_):
        yield ("stages", name, "from"), f"stage {name} reads tables alone: it needs a stream as well"
    if (stage.dedupe or stage.checks) and len(streams) != 1:
        yield (
            ("stages", name),
            "dedupe and checks are about the rows of one stream: read one, or put them in a stage before",
        )
    elif (stage.dedupe or stage.checks) and kinds[streams[0]] == "stages":
        yield (
            ("stages", name),
            f"dedupe and checks are done where events come in: put them in the stage that reads the source, not after {streams[0]}",
        )
    if not stage.has_code and (len(stage.from_) != 1 or stage.mode != "append"):
        yield ("stages", name), "a stage that reads several, or updates rows, needs a function or SQL"
    source = specification.sources.get(streams[0]) if len(streams) == 1 else None
    if stage.dedupe and source is not None and source.event_time is None:
        yield (
            ("stages", name, "dedupe"),
            f"dedupe needs event_time and lateness of {streams[0]}, or it would keep all keys for ever",
        )


def _reached_from(names: tuple[str, ...], stages: Mapping[str, Any]) -> set[str]:
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += stages[name].from_ if name in stages else ()
    return reached


def _unknown(name: str, known: list[str]) -> str:
    return f"nothing is named {name}; there is {', '.join(sorted(known)) or 'nothing else'}"


def _written(path: tuple[Any, ...]) -> Path:
    """Pydantic's path without what nobody wrote: the kinds that it has chosen between, and its mark for a mapping's key."""
    path = tuple(one for one in path if one != "[key]")
    if path[:1] == ("sinks",) and len(path) > 2:
        return (*path[:2], *path[3:])
    if path[:1] == ("alerts",) and path[2:3] == ("to",) and len(path) > 4:
        return (*path[:4], *path[5:])
    return path


def _named(path: tuple[Any, ...]) -> str:
    return ".".join(str(one) for one in path) or "pipeline"


def _said(error: Mapping[str, Any]) -> str:
    """Pydantic's message; shorter where people are told most often."""
    match error["type"]:
        case "extra_forbidden":
            return "unknown; check its spelling"
        case "missing":
            return "missing"
        case "value_error":
            return str(error["msg"]).removeprefix("Value error, ")
    return f"{error['msg']}, not {error['input']!r}"
