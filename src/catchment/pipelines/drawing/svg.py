"""A pipeline as SVG, for pages light and dark: each kind of thing has a shape of its own.

Nodes are laid out in layers from left to right, each after all that flows into it. Within a layer they stand where their neighbours are
on average, which keeps lines short and crossings few. A line that passes a layer gets a position there as well, so that it runs between
the nodes and not through them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from catchment.pipelines.drawing.picture import Kind, Node, Picture

_WIDTH: Final = 190
_HEIGHT: Final = 66
_GAP_X: Final = 70
_GAP_Y: Final = 26
_MARGIN: Final = 20
_CUT: Final = 14
_ARC: Final = 9
_LONGEST_TEXT: Final = 30
_STYLE: Final = """
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #57606a; text-anchor: middle; }
  .title { font-size: 14px; font-weight: 600; fill: #1f2328; }
  .shape { stroke-width: 1.5; }
  .line { fill: none; stroke: #8c959f; stroke-width: 1.5; }
  .tip { fill: #8c959f; }
  .topic { fill: #ddf4ff; stroke: #4393e6; } .table { fill: #f6f8fa; stroke: #6e7781; }
  .source-stage { fill: #fff8c5; stroke: #bf8700; } .processing-stage { fill: #fbefff; stroke: #a475f9; }
  .store { fill: #dafbe1; stroke: #2da44e; } .lake { fill: #d8f5f2; stroke: #1b9e8f; }
  .alert { fill: #ffebe9; stroke: #e5534b; }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1; } .title { fill: #f0f6fc; } .line { stroke: #6e7681; } .tip { fill: #6e7681; }
    .topic { fill: #0c2d4d; } .table { fill: #21262d; } .source-stage { fill: #3b2e04; } .processing-stage { fill: #2b1b4d; }
    .store { fill: #0f3320; } .lake { fill: #0b3532; } .alert { fill: #4a1614; }
  }
"""
_SWEEPS: Final = 8


def svg(picture: Picture, title: str) -> str:
    """The whole picture as one file without anything from elsewhere."""
    places = layout(picture)
    width = 2 * _MARGIN + len(places.layers) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + places.height * (_HEIGHT + _GAP_Y) - _GAP_Y
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img">'
    lines = [_line(places, line) for line in places.lines.values()]
    nodes = [part for node in picture.nodes.values() for part in _node(places, node)]
    return "\n".join(
        [head, f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>", *lines, *nodes, "</svg>", ""]
    )


def _corner(places: Layout, name: str) -> tuple[float, float]:
    return (
        _MARGIN + places.layer(name) * (_WIDTH + _GAP_X),
        _MARGIN + places.rows[name] * (_HEIGHT + _GAP_Y),
    )


def _line(places: Layout, passed: list[str]) -> str:
    """From the right side of a node to the left side of another, straight through the places between them."""
    corners = [_corner(places, name) for name in passed]
    x, y = corners[0][0] + _WIDTH, corners[0][1] + _HEIGHT / 2
    path = [f"M {x:g} {y:g}"]
    for number, (left, top) in enumerate(corners[1:], start=1):
        middle = top + _HEIGHT / 2
        is_end = number == len(corners) - 1
        target = left - (7 if is_end else 0)
        path.append(f"C {(x + target) / 2:g} {y:g} {(x + target) / 2:g} {middle:g} {target:g} {middle:g}")
        x, y = target, middle
        if not is_end:
            x = left + _WIDTH
            path.append(f"L {x:g} {y:g}")
    tip = f'<path class="tip" d="M {x:g} {y - 4:g} l 7 4 l -7 4 z"/>'
    return f'<path class="line" d="{" ".join(path)}"/>{tip}'


def _node(places: Layout, node: Node) -> Iterator[str]:
    x, y = _corner(places, node.name)
    yield f"<g><title>{escape(node.kind)} {escape(node.title)}</title>"
    yield f'<path class="shape {node.kind}" d="{_shape(node.kind, x, y)}"/>'
    texts = [one for one in node.details if one][:2]
    middle = y + _HEIGHT / 2 + (6 if node.kind in ("store", "lake") else 0)
    first = middle + 5 - 8 * len(texts)
    yield f'<text class="title" x="{x + _WIDTH / 2:g}" y="{first:g}">{escape(_short(node.title))}</text>'
    for number, text in enumerate(texts, start=1):
        yield f'<text x="{x + _WIDTH / 2:g}" y="{first + 16 * number:g}">{escape(_short(text))}</text>'
    yield "</g>"


def _shape(kind: Kind, x: float, y: float) -> str:
    right, bottom = x + _WIDTH, y + _HEIGHT
    match kind:
        case "topic":
            # A pipe lying on its side.
            return (
                f"M {x + _ARC} {y} H {right - _ARC} A {_ARC} {_HEIGHT / 2} 0 0 1 {right - _ARC} {bottom} H {x + _ARC} "
                f"A {_ARC} {_HEIGHT / 2} 0 0 1 {x + _ARC} {y} A {_ARC} {_HEIGHT / 2} 0 0 1 {x + _ARC} {bottom}"
            )
        case "table":
            return f"M {x} {y} H {right} V {bottom} H {x} Z M {x} {y + 8} H {right} M {x + 8} {y} V {bottom}"
        case "source-stage":
            # A funnel's hexagon.
            middle = y + _HEIGHT / 2
            return (
                f"M {x + _CUT} {y} H {right - _CUT} L {right} {middle} L {right - _CUT} {bottom} H {x + _CUT} "
                f"L {x} {middle} Z"
            )
        case "store":
            # A drum.
            return (
                f"M {x} {y + _ARC} A {_WIDTH / 2} {_ARC} 0 0 1 {right} {y + _ARC} V {bottom - _ARC} "
                f"A {_WIDTH / 2} {_ARC} 0 0 1 {x} {bottom - _ARC} Z M {x} {y + _ARC} "
                f"A {_WIDTH / 2} {_ARC} 0 0 0 {right} {y + _ARC}"
            )
        case "lake":
            wave = " ".join(f"q {_WIDTH / 16} {-_ARC if number % 2 else _ARC} {_WIDTH / 8} 0" for number in range(8))
            return f"M {x} {y + _ARC / 2} {wave} V {bottom} H {x} Z"
        case "alert":
            return (
                f"M {x + _CUT} {y} H {right - _CUT} L {right} {y + _CUT} V {bottom - _CUT} L {right - _CUT} {bottom} "
                f"H {x + _CUT} L {x} {bottom - _CUT} V {y + _CUT} Z"
            )
        case "processing-stage":
            return (
                f"M {x + _ARC} {y} H {right - _ARC} A {_ARC} {_ARC} 0 0 1 {right} {y + _ARC} V {bottom - _ARC} "
                f"A {_ARC} {_ARC} 0 0 1 {right - _ARC} {bottom} H {x + _ARC} A {_ARC} {_ARC} 0 0 1 {x} {bottom - _ARC} "
                f"V {y + _ARC} A {_ARC} {_ARC} 0 0 1 {x + _ARC} {y} Z"
            )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


@dataclass(frozen=True)
class Layout:
    """The layer and the row of every node, and the ways of the lines."""

    layers: list[list[str]]
    rows: dict[str, float]
    """Rows may be fractions: a layer with fewer nodes stands in the middle."""
    lines: dict[tuple[str, str], list[str]]
    """All positions that the line of an edge passes, both its ends among them."""

    def layer(self, name: str) -> int:
        return next(number for number, names in enumerate(self.layers) if name in names)

    @property
    def height(self) -> float:
        return max(self.rows.values(), default=0) + 1


def layout(picture: Picture) -> Layout:
    """A layout of the picture; the same for the same picture."""
    depth = _depths(picture)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, number in depth.items():
        layers[number].append(name)
    lines: dict[tuple[str, str], list[str]] = {}
    for start, end in picture.edges:
        passed = [f"{start} to {end} at {number}" for number in range(depth[start] + 1, depth[end])]
        for number, place in enumerate(passed, start=depth[start] + 1):
            layers[number].append(place)
        lines[start, end] = [start, *passed, end]
    neighbours: dict[str, set[str]] = {name: set() for names in layers for name in names}
    for line in lines.values():
        for left, right in pairwise(line):
            neighbours[left].add(right)
            neighbours[right].add(left)
    return Layout(layers, _rows(layers, neighbours), lines)


def _depths(picture: Picture) -> dict[str, int]:
    """The longest way to each node; what nothing flows into stands right before its first reader."""
    depth: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in depth:
            depth[name] = max((of(above) + 1 for above in picture.above(name)), default=0)
        return depth[name]

    for name in picture.nodes:
        of(name)
    for name in picture.nodes:
        if not picture.above(name) and (below := picture.below(name)):
            depth[name] = min(depth[one] for one in below) - 1
    return depth


def _rows(layers: list[list[str]], neighbours: dict[str, set[str]]) -> dict[str, float]:
    rows: dict[str, float] = {}
    tallest = max((len(names) for names in layers), default=0)
    for names in layers:
        rows |= _spread(names, tallest)
    for sweep in range(_SWEEPS):
        for names in layers if sweep % 2 == 0 else reversed(layers):
            average = {name: _average([rows[one] for one in sorted(neighbours[name])], rows[name]) for name in names}
            names.sort(key=lambda name: (average[name], rows[name]))
            rows |= _spread(names, tallest)
    return rows


def _spread(names: list[str], tallest: int) -> dict[str, float]:
    first = (tallest - len(names)) / 2
    return {name: first + number for number, name in enumerate(names)}


def _average(numbers: list[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise
