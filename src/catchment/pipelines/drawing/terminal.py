"""A pipeline drawn with lines in a terminal: what flows out of each topic, with what else flows in named beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from catchment.pipelines.drawing.picture import Kind, Node, Picture

MARKS: Final[dict[Kind, str]] = {
    "topic": "≡",
    "table": "▤",
    "source-stage": "⬡",
    "processing-stage": "▢",
    "store": "⛁",
    "lake": "≈",
    "alert": "!",
}


def drawn(picture: Picture, remarks: Mapping[str, str] | None = None) -> list[str]:
    """The lines. `remarks` are about queries, and stand behind them."""
    seen: set[str] = set()
    roots = [name for name in picture.nodes if not picture.above(name) and picture.nodes[name].kind == "topic"]
    return [line for root in roots for line in _lines(picture, root, "", "", seen, remarks or {})]


def _lines(
    picture: Picture, name: str, lead: str, indent: str, seen: set[str], remarks: Mapping[str, str]
) -> Iterator[str]:
    node = picture.nodes[name]
    if name in seen:
        yield f"{lead}{MARKS[node.kind]} {node.title} (above)"
        return
    seen.add(name)
    yield f"{lead}{_text(node)}{_joined(picture, name)}{_remark(node, remarks)}"
    below = picture.below(name)
    for number, child in enumerate(below):
        is_last = number == len(below) - 1
        yield from _lines(
            picture,
            child,
            f"{indent}{'└─ ' if is_last else '├─ '}",
            f"{indent}{'   ' if is_last else '│  '}",
            seen,
            remarks,
        )


def _text(node: Node) -> str:
    details = [one for one in node.details if one]
    return f"{MARKS[node.kind]} {node.title}" + (f"  {'  '.join(details)}" if details else "")


def _joined(picture: Picture, name: str) -> str:
    tables = [picture.nodes[one].title for one in picture.above(name) if picture.nodes[one].kind == "table"]
    return "".join(f"  + {MARKS['table']} {table}" for table in tables)


def _remark(node: Node, remarks: Mapping[str, str]) -> str:
    return f"  [{remarks[node.query]}]" if node.query is not None and node.query in remarks else ""
