"""Declarations as written, in a file or by calls, and the checked specification that is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import ValidationError

from catchment.pipelines.checks.early import early_mistakes, unknown_columns
from catchment.pipelines.checks.revisions import misplaced_revisions
from catchment.pipelines.checks.shared_names import shared
from catchment.pipelines.declaration.addresses import missing_variables
from catchment.pipelines.declaration.specification import (
    Alert,
    Check,
    Declaration,
    LakeSink,
    Mail,
    PipelineSpecification,
    Source,
    Stage,
    StageTopic,
    StoreSink,
    Table,
    TopicOut,
    TopicSink,
    Webhook,
)
from catchment.pipelines.errors import Finding, Location, Mistake, Mistakes, Path, closest

_SECTIONS: Final = ("sources", "tables", "stages", "sinks", "alerts")
_READABLE: Final = ("sources", "tables", "stages")
_BY_NAME: Final[dict[str, type[Declaration]]] = {"sources": Source, "tables": Table, "stages": Stage, "alerts": Alert}
_SINKS: Final[dict[str, type[Declaration]]] = {"store": StoreSink, "lake": LakeSink, "topic": TopicSink}
_ALERT_TARGETS: Final[dict[str, type[Declaration]]] = {"topic": TopicOut, "webhook": Webhook, "mail": Mail}


@dataclass
class Declared:
    """Declarations as written, and the lines where they were."""

    tree: dict[str, Any]
    locations: dict[Path, Location] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def location(self, path: Path) -> Location | None:
        """The line of the declaration itself, or of the nearest one around it."""
        for length in range(len(path), -1, -1):
            if (found := self.locations.get(path[:length])) is not None:
                return found
        return None

    def invalid(
        self, error: ValidationError, under: Path = (), known: Mapping[Path, str] | None = None
    ) -> list[Mistake]:
        """What Pydantic found, each with its location; `under` is where in the file the declaration is that it looked at.

        What is `known` of a path says more than Pydantic does.
        """
        keys = (lambda _: ()) if under else _keys_of
        found = [((*under, *_written(one["loc"])), one) for one in error.errors()]
        return [
            Mistake(self.location(path), f"{_named(path)}: {(known or {}).get(path) or _message(one, keys)}")
            for path, one in found
        ]

    def located(self, found: Iterable[Finding]) -> list[Mistake]:
        """What was found wrong with declarations, each with its location."""
        return [
            Mistake(one.location or self.location(one.path), one.what + self._line_of_sql(one.path)) for one in found
        ]

    def _line_of_sql(self, path: Path) -> str:
        """Which line of a stage's SQL it is, where the file does not have those lines as its own."""
        is_line = path[-2:-1] == ("sql",) and path not in self.locations
        return f" (line {path[-1]} of its SQL)" if is_line and path[-1] != 1 else ""

    def check(
        self, folder: FilePath | None = None, *, is_to_run: bool = False, has_columns_checked: bool = True
    ) -> PipelineSpecification:
        """The specification; raises all that is wrong with its parts, with how they fit together and with what they need.

        `folder` is what paths are relative to; without one, what a run needs is not looked at. To be run, variables must be set.
        A pipeline that is about to be planned needs no columns checked here, unless something else is wrong with it: the plan
        resolves all of them at once.
        """
        tree, unreadable = _with_inputs(self.tree)
        found = list(self.mistakes)
        specification: PipelineSpecification | None = None
        broken: set[Path] = set()
        try:
            specification = PipelineSpecification.model_validate(tree)
        except ValidationError as error:
            found += self.invalid(error, known=unreadable)
            broken = {_declaration(_written(one["loc"])) for one in error.errors()}
        reported = [*misnamed(tree), *(missing_variables(self.tree) if is_to_run else ())]
        if (valid := specification or _valid_rest(tree, broken)) is not None:
            of_valid = [*mismatches(valid, kinds_in(tree)), *(early_mistakes(valid, folder) if folder else ())]
            columns = list(unknown_columns(valid, folder)) if folder else []
            whole = [number for number in _section(tree, "sinks") if ("sinks", number) not in broken]
            reported += [(_renumbered(path, whole), what) for path, what in of_valid]
            if has_columns_checked or found or reported:
                reported += [(_renumbered(path, whole), what) for path, what, _ in columns]
        found += [Mistake(self.location(path), what) for path, what in reported]
        if specification is None or found:
            raise Mistakes(sorted(dict.fromkeys(found), key=lambda one: one.location or Location("", 0)))
        return specification


def _section(tree: Mapping[str, Any], kind: str) -> dict[str | int, Any]:
    """The declarations of a kind by name or number, as far as the file has them at all."""
    section = tree.get(kind)
    if isinstance(section, list | tuple):
        return dict(enumerate(section))
    return section if isinstance(section, dict) else {}


def _declaration(path: Path) -> Path:
    """What has to be left out if something is wrong there."""
    return path[:2] if path[:1] and path[0] in _SECTIONS else path[:1]


def _valid_rest(tree: dict[str, Any], broken: set[Path]) -> PipelineSpecification | None:
    """The declarations without those in which something is wrong; None if the rest is no valid pipeline either."""
    kept = {key: value for key, value in tree.items() if (key,) not in broken}
    for kind in _SECTIONS:
        whole = {name: one for name, one in _section(kept, kind).items() if (kind, name) not in broken}
        kept[kind] = list(whole.values()) if kind == "sinks" else whole
    try:
        return PipelineSpecification.model_validate({"pipeline": "unnamed", **kept})
    except ValidationError:
        return None


def _renumbered(path: Path, whole: Sequence[str | int]) -> Path:
    """A path into the remaining declarations as a path into the file, where sinks that were left out count."""
    return ("sinks", whole[int(path[1])], *path[2:]) if path[0] == "sinks" else path


def _with_inputs(tree: dict[str, Any]) -> tuple[dict[str, Any], dict[Path, str]]:
    """The declarations with `from` for SQL stages without it, taken from their SQL; and why it cannot be, where that is so."""
    known = kinds_in(tree).keys()
    stages = tree.get("stages")
    found: dict[str, Any] = {}
    unreadable: dict[Path, str] = {}
    for name, stage in stages.items() if isinstance(stages, dict) else ():
        if isinstance(stage, dict) and not stage.get("from") and isinstance(sql := stage.get("sql"), str):
            try:
                read = [one for one in tables_read(sql) if one in known and one != name]
            except SqlUnreadable as error:
                unreadable["stages", name, "from"] = f"write what it reads, which its SQL does not show ({error})"
            else:
                found[name] = stage | {"from": read} if read else stage
    return (tree | {"stages": stages | found} if isinstance(stages, dict) else tree), unreadable


def kinds_in(tree: Mapping[str, Any]) -> dict[str, str]:
    """The kind of each name, whether its declaration is valid or not."""
    return {name: kind for kind in _READABLE for name in _section(tree, kind) if isinstance(name, str)}


def misnamed(tree: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Names that no declaration has, or two have. They are reported whatever else is wrong."""
    if any(not isinstance(tree.get(kind) or {}, dict) for kind in _READABLE):
        # What has the wrong shape has no names, and all that are read would seem unknown.
        return
    kinds = kinds_in(tree)
    for kind in _READABLE:
        for name in _section(tree, kind):
            others = [one for one in _READABLE[: _READABLE.index(kind)] if name in _section(tree, one)]
            if others:
                yield (kind, name), f"the name {name} is taken: {others[-1]} has it too"
    for kind, allowed in (("stages", _READABLE), ("sinks", ("sources", "stages")), ("alerts", ("sources", "stages"))):
        for name, declared in _section(tree, kind).items():
            read = declared.get("from") if isinstance(declared, dict) else None
            for wanted in [read] if isinstance(read, str) else read if isinstance(read, list | tuple) else ():
                if isinstance(wanted, str) and kinds.get(wanted) not in allowed:
                    known = [one for one, its in kinds.items() if its in allowed and (its, one) != (kind, name)]
                    yield (kind, name, "from"), _unknown(wanted, known)


def mismatches(specification: PipelineSpecification, kinds: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Cycles, and what does not fit together across declarations; `kinds` has the names of all, valid or not."""
    for name in specification.stages:
        yield from _mismatches_of_stage(specification, name, kinds)
    for name in _in_cycles(specification.stages):
        by_way_of = ", ".join(specification.stages[name].from_)
        yield ("stages", name, "from"), f"stage {name} reads itself by way of {by_way_of}"
    yield from shared(specification)
    yield from misplaced_revisions(specification)
    names = [one.name for one in specification.sinks if one.name]
    for number, one in enumerate(specification.sinks):
        if one.name and names.count(one.name) > 1:
            yield ("sinks", number), f"two sinks are named {one.name}"


def _mismatches_of_stage(
    specification: PipelineSpecification, name: str, kinds: Mapping[str, str]
) -> Iterator[tuple[Path, str]]:
    stage = specification.stages[name]
    streams = [one for one in stage.from_ if kinds.get(one) in ("sources", "stages")]
    if any(one not in kinds for one in stage.from_):
        return
    if not streams:
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


def _in_cycles(stages: Mapping[str, Stage]) -> Iterator[str]:
    """Stages that read themselves, cycle by cycle."""
    reads = {name: [one for one in stage.from_ if one in stages] for name, stage in stages.items()}
    while True:
        try:
            TopologicalSorter(reads).prepare()
        except CycleError as error:
            # The first stage of the cycle is the last as well.
            cycle = error.args[1][1:]
            yield from cycle
            reads = {
                name: [one for one in read if one not in cycle] for name, read in reads.items() if name not in cycle
            }
        else:
            return


def _unknown(name: str, known: list[str]) -> str:
    return f"nothing is named {name}; there is {', '.join(sorted(known)) or 'nothing else'}"


def _written(path: tuple[Any, ...]) -> Path:
    """Pydantic's path as the author wrote it: without the kinds that it chose between and its mark for a mapping's key."""
    path = tuple(one for one in path if one != "[key]")
    if path[:1] == ("sinks",) and len(path) > 2:
        return (*path[:2], *path[3:])
    if path[:1] == ("alerts",) and path[2:3] == ("to",) and len(path) > 4:
        return (*path[:4], *path[5:])
    return path


def _named(path: tuple[Any, ...]) -> str:
    return ".".join(str(one) for one in path) or "pipeline"


def _message(error: Mapping[str, Any], keys: Callable[[tuple[Any, ...]], Iterable[str]]) -> str:
    """Pydantic's message; shorter for the most frequent mistakes."""
    match error["type"]:
        case "extra_forbidden":
            *around, key = error["loc"]
            close = closest(str(key), keys(tuple(around)))
            return f"unknown; did you mean {close}?" if close else "unknown; check its spelling"
        case "missing":
            return "missing"
        case "value_error":
            return str(error["msg"]).removeprefix("Value error, ")
    return f"{error['msg']}, not {error['input']!r}"


def _keys_of(path: tuple[Any, ...]) -> list[str]:
    """The keys that a declaration may have, by Pydantic's path to it."""
    match path:
        case ("stages", _, "checks", _):
            model: type[Declaration] = Check
        case ("stages", _, "to"):
            model = StageTopic
        case ("sinks", _, kind) | ("alerts", _, "to", _, kind):
            model = (_SINKS if path[0] == "sinks" else _ALERT_TARGETS)[kind]
        case (kind, _):
            model = _BY_NAME[kind]
        case _:
            model = PipelineSpecification
    return [field.alias or name for name, field in model.model_fields.items()]


class SqlUnreadable(Exception):
    """A statement that cannot be taken apart here; Spark may understand it nevertheless."""


def tables_read(sql: str) -> list[str]:
    """The tables that a statement names, in their order; neither those that it makes itself (WITH) nor those of a database."""
    # It takes a moment to load, and only stages that do not say what they read need it.
    import sqlglot
    from sqlglot.errors import ParseError, SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    found: list[tuple[int, str]] = []
    try:
        statements = [one for one in sqlglot.parse(sql, read="spark") if one is not None]
        for scope in (scope for one in statements for scope in traverse_scope(one)):
            made = {name.lower() for name in scope.cte_sources}
            found += [
                (table.this.meta.get("start", 0), table.name)
                for table in scope.tables
                if not table.db and table.name.lower() not in made
            ]
    except ParseError as error:
        # sqlglot's own message is for a terminal, with colours, and names its tokens.
        first = error.errors[0] if error.errors else {}
        where = f"line {first['line']}, at {first['highlight']!r}: " if "line" in first else ""
        what = first.get("description", "it is no SQL").partition(" but got <")[0]
        raise SqlUnreadable(f"{where}{what.rstrip('.')}") from error
    except SqlglotError as error:
        raise SqlUnreadable(str(error).partition("\n")[0]) from error
    return list(dict.fromkeys(name for _, name in sorted(found)))
