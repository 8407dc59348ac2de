"""A pipeline as Python: the same declarations as in YAML, with functions for stages.

Nothing is checked where it is called, so that all mistakes can be told together, each with the line of its call.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple, overload

from catchment.pipelines.declared import Declared
from catchment.pipelines.mistakes import Mistake, Path, Place
from catchment.pipelines.specification import PipelineSpecification

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 63


class Part(NamedTuple):
    """Something declared for use in a pipeline, with the line where it was."""

    declared: dict[str, Any]
    place: Place


class Node(NamedTuple):
    """A source, table or stage of a pipeline, for later stages, sinks and alerts to read."""

    name: str


def topic(name: str, **options: Any) -> Part:
    """A topic to read (`format`, `schema`, `registry`, `on_error`) or to write (`key`, `partitions`, for a stage `format`)."""
    return Part({"topic": name, **options}, _caller())


def store(url: str, *, table: str, **options: Any) -> Part:
    """A table of a real-time store: `sqlite:///file`, `postgresql://…` or `redis://…`."""
    return Part({"store": url, "table": table, **options}, _caller())


def lake(path: str, **options: Any) -> Part:
    """A for-ever store: a folder or an address of an object store."""
    return Part({"lake": path, **options}, _caller())


def webhook(url: str) -> Part:
    """An address that is told of alerts by POST."""
    return Part({"webhook": url}, _caller())


def mail(address: str) -> Part:
    """An address that is told of alerts by mail."""
    return Part({"mail": address}, _caller())


def check(expect: str, **options: Any) -> Part:
    """A condition on rows, in SQL, and what becomes of a row that fails it."""
    return Part({"expect": expect, **options}, _caller())


def env(name: str) -> str:
    """The value of an environment variable when the pipeline runs: for passwords and addresses, which no plan shows."""
    return f"${{{name}}}"


class Pipeline:
    """A pipeline that is being declared."""

    def __init__(self, name: str, **options: Any) -> None:
        self.declared = Declared({"pipeline": name, **options}, {(): _caller()})
        self.declared.tree |= {"sources": {}, "tables": {}, "stages": {}, "sinks": [], "alerts": {}}

    def source(self, topic: Part, *, name: str | None = None, **options: Any) -> Node:
        """A stream of events. Without a name it has that of its topic, with `_` for dots: `shop.orders` is `shop_orders`."""
        return self._add("sources", name or _name_of(topic), topic.declared | options)

    def table(self, topic: Part, *, key: str | Sequence[str], name: str | None = None) -> Node:
        """The last value of each key of a compacted topic, named as a source is."""
        return self._add("tables", name or _name_of(topic), topic.declared | {"key": key})

    @overload
    def stage(self, name: str, *inputs: Node, **options: Any) -> Node: ...

    @overload
    def stage(self, name: Node, *inputs: Node, **options: Any) -> Callable[[Callable[..., Any]], Node]: ...

    def stage(self, name: str | Node, *inputs: Node, **options: Any) -> Node | Callable[[Callable[..., Any]], Node]:
        """A stage by its name, or around a function that makes rows of rows and gives it its name."""
        place = _caller()
        if isinstance(name, str):
            return self._add_stage(name, inputs, options, place)

        def decorate(function: Callable[..., Any]) -> Node:
            return self._add_stage(function.__name__, (name, *inputs), options | {"function": function}, place)

        return decorate

    def sink(self, node: Node, to: Part, *, name: str | None = None) -> None:
        """Keep the rows of a stage."""
        declared = {"from": node.name, **to.declared} | ({"name": name} if name else {})
        self.declared.places["sinks", len(self.declared.tree["sinks"])] = _caller()
        self.declared.tree["sinks"].append(declared)

    def alert(self, node: Node, name: str, *, to: Part | Sequence[Part], **options: Any) -> None:
        """Respond to rows of a stage."""
        targets = [to] if isinstance(to, Part) else list(to)
        for number, target in enumerate(targets):
            self.declared.places["alerts", name, "to", number] = target.place
        self._add("alerts", name, {"from": node.name, "to": [one.declared for one in targets], **options})

    @property
    def folder(self) -> FilePath:
        """That of the file which declares it: paths are relative to it."""
        place = self.declared.place(())
        assert place is not None, "every pipeline is declared somewhere"
        return FilePath(place.file).parent

    def check(self) -> PipelineSpecification:
        """The whole, checked; raises `Mistakes`."""
        return self.declared.check(self.folder)

    def main(self) -> None:
        """Run this file as `catchment pipeline run` does: `python city.py --available-now`; or another verb: `python city.py plan`."""
        arguments = sys.argv[1:]
        if arguments[:1] in (["--help"], ["-h"]):
            verb, file, rest = "--help", [], arguments[1:]
        else:
            is_verb = bool(arguments) and not arguments[0].startswith("-")
            verb, rest = (arguments[0], arguments[1:]) if is_verb else ("run", arguments)
            file = [os.path.abspath(sys.argv[0])]
        command = [sys.executable, "-m", "catchment.cli", "pipeline", verb, *file, *rest]
        sys.stdout.flush()
        os.execv(sys.executable, command)

    def _add_stage(self, name: str, inputs: Sequence[Node], options: dict[str, Any], place: Place) -> Node:
        declared = {"from": [one.name for one in inputs], **options}
        if isinstance(to := declared.get("to"), Part):
            declared["to"] = to.declared
            self.declared.places["stages", name, "to"] = to.place
        checks = declared.get("checks", ())
        for number, one in enumerate([checks] if isinstance(checks, Part) else checks):
            self.declared.places["stages", name, "checks", number] = one.place
        declared["checks"] = [one.declared for one in ([checks] if isinstance(checks, Part) else checks)]
        return self._add("stages", name, declared, place)

    def _add(self, kind: str, name: str, declared: dict[str, Any], place: Place | None = None) -> Node:
        path: Path = (kind, name)
        place = place or _caller()
        if name in self.declared.tree[kind]:
            remedy = "; name one of them with name=" if kind in ("sources", "tables") else ""
            self.declared.mistakes.append(Mistake(place, f"{kind}.{name} is given twice{remedy}"))
        self.declared.tree[kind][name] = declared
        self.declared.places[path] = place
        return Node(name)


def _name_of(topic: Part) -> str:
    """A name for a source or a table, from that of its topic."""
    name = _NOT_IN_NAMES.sub("_", str(topic.declared["topic"]))[:_LONGEST_NAME]
    # A name begins with a letter.
    return name if name[:1].isalpha() else f"topic_{name}"[:_LONGEST_NAME]


def _caller() -> Place:
    """The line outside of this file that is being run."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
