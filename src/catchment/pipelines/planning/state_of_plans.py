"""What a query's state consists of, read from Spark's analysed plan: every operator that remembers rows, with its columns.

The plan is a tree of objects in the JVM and is asked node by node. Only what Spark's state depends on is taken down: what a stage
computes of a row before the state sees it, or of the state's result, may change without harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

from catchment.pipelines.planning.signature import Operator, Part

_WINDOWS: Final = ("window", "session_window")
_IDENTITY: Final = re.compile(r"#\d+L?(-T\d+ms)?")
_MICROSECONDS: Final = re.compile(r"(\d+)L")
_ZERO: Final = ("0", "0L")
_WITH_PANDAS_STATE: Final = "FlatMapGroupsInPandasWithState"


class State(NamedTuple):
    """The operators, and the columns of the input that they are made of."""

    operators: tuple[Operator, ...]
    uses: tuple[str, ...]


def state_of(rows: DataFrame) -> State:
    """That of a streaming result; nothing for one that needs none."""
    plan = rows._jdf.queryExecution().analyzed()
    operators: list[Operator] = []
    names: set[str] = set()
    for node in _nodes(plan):
        if node.isStreaming() and (parts := _parts(node)) is not None:
            operators.append(Operator(kind=_kind(node), parts=tuple(parts)))
            names |= {one.name() for one in _sequence(node.references().toSeq())}
    leaves = {one.name() for node in _nodes(plan) if not node.children().size() for one in _sequence(node.output())}
    return State(tuple(operators), tuple(sorted(names & leaves | _window_columns(operators))))


def _parts(node: Any) -> list[Part] | None:
    """What an operator remembers; None for one that remembers nothing."""
    match _class(node):
        case "Aggregate":
            return _aggregate(node)
        case "Deduplicate" | "DeduplicateWithinWatermark":
            return [_column("key", key) for key in _sequence(node.keys())]
        case "Distinct":
            return [_column("key", key) for key in _sequence(node.child().output())]
        case "Join" if node.left().isStreaming() and node.right().isStreaming():
            return _join(node)
        case "TransformWithState" | "TransformWithStateInPySpark":
            return _processor(node)
        case "FlatMapGroupsWithState" | "FlatMapGroupsInPandasWithState":
            return _groups(node)
        case "GlobalLimit":
            return [Part(name="rows", what=node.limitExpr().sql())]
    return None


def _kind(node: Any) -> str:
    name = _class(node)
    return {
        "Aggregate": "aggregation",
        "Deduplicate": "deduplication",
        "DeduplicateWithinWatermark": "deduplication within the watermark",
        "Distinct": "deduplication",
        "Join": "join of streams",
        "GlobalLimit": "limit",
    }.get(name, "arbitrary state")


def _aggregate(node: Any) -> list[Part]:
    keys = [_key(node, key) for key in _sequence(node.groupingExpressions())]
    # Spark's state has one buffer for each distinct aggregate, in this order.
    found: dict[str, str] = {}
    for expression in _sequence(node.aggregateExpressions()):
        for one in _expressions(expression):
            if _class(one) == "AggregateExpression":
                found.setdefault(f"aggregate {_plain(one)}", one.dataType().sql().lower())
    return keys + [Part(name=name, what=what) for name, what in found.items()]


def _key(node: Any, key: Any) -> Part:
    if _class(key) == "AttributeReference" and key.name() in _WINDOWS and (made := _definition(node, key)) is not None:
        columns = sorted({one.name() for one in _sequence(made.references().toSeq())})
        return Part(name=f"key {key.name()}", what=f"of {', '.join(columns)}, {', '.join(_lengths(made))}")
    name = key.name() if _class(key) == "AttributeReference" else _plain(key)
    return Part(name=f"key {name}", what=key.dataType().sql().lower())


def _definition(node: Any, key: Any) -> Any | None:
    """The expression that makes a column somewhere below a node."""
    wanted = key.exprId()
    for below in _nodes(node.child()):
        if _class(below) == "Project":
            for made in _sequence(below.projectList()):
                if _class(made) == "Alias" and made.exprId().equals(wanted):
                    return made.child()
        if _class(below) == "Expand":
            ids = [one.exprId() for one in _sequence(below.output())]
            for place, one in enumerate(ids):
                if one.equals(wanted):
                    return below.projections().apply(0).apply(place)
    return None


def _lengths(definition: Any) -> list[str]:
    """The lengths of time in the definition of a window: its own, its slide, its gap."""
    found: dict[str, None] = {}
    for one in _expressions(definition):
        if _class(one) == "Literal" and one.sql() not in (*_ZERO, "'start'", "'end'", "NULL"):
            found.setdefault(_length(one.sql()))
    return sorted(found)


def _length(literal: str) -> str:
    microseconds = _MICROSECONDS.fullmatch(literal)
    return f"{int(microseconds[1]) / 1_000_000:g} seconds" if microseconds else literal


def _window_columns(operators: list[Operator]) -> set[str]:
    """The columns that windows are of: the operator itself refers to the window only."""
    windows = [
        part.what for one in operators for part in one.parts if part.name in [f"key {name}" for name in _WINDOWS]
    ]
    return {what.removeprefix("of ").split(",")[0] for what in windows if what.startswith("of ")}


def _join(node: Any) -> list[Part]:
    """A join of streams remembers whole rows of both sides."""
    condition = node.condition()
    parts = [
        Part(name="kind", what=node.joinType().sql().lower()),
        Part(name="condition", what=_plain(condition.get()) if condition.isDefined() else "none"),
    ]
    for side, below in (("left", node.left()), ("right", node.right())):
        parts += [_column(f"{side} column", one) for one in _sequence(below.output())]
    return parts


def _processor(node: Any) -> list[Part]:
    keys = (
        [_column("key", one) for one in _sequence(node.groupingAttributes())] if _is_scala(node) else _first_keys(node)
    )
    modes = [
        Part(name="times", what=str(node.timeMode().toString())),
        Part(name="mode", what=str(node.outputMode().toString()).lower()),
    ]
    return keys + modes


def _is_scala(node: Any) -> bool:
    return bool(_class(node) == "TransformWithState")


def _first_keys(node: Any) -> list[Part]:
    """PySpark puts the grouping columns before the others and says how many they are."""
    output = _sequence(node.children().apply(0).output())
    return [_column("key", one) for one, _ in zip(output, range(node.groupingAttributesLen()), strict=False)]


def _groups(node: Any) -> list[Part]:
    keys = [_column("key", one) for one in _sequence(node.groupingAttributes())]
    if _class(node) == _WITH_PANDAS_STATE:
        keys.append(Part(name="state", what=node.stateType().sql().lower()))
    return keys


def _column(role: str, attribute: Any) -> Part:
    return Part(name=f"{role} {attribute.name()}", what=attribute.dataType().sql().lower())


def _plain(expression: Any) -> str:
    """An expression without the numbers by which Spark distinguishes columns, which differ from run to run."""
    return _IDENTITY.sub("", expression.toString())


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _sequence(plan.children()):
        yield from _nodes(child)


def _expressions(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _sequence(expression.children()):
        yield from _expressions(child)


def _sequence(scala: Any) -> list[Any]:
    return [scala.apply(place) for place in range(scala.size())]
