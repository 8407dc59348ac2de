"""Positions for the nodes of a picture, in layers from left to right: each after all that flows into it.

Within a layer nodes stand where their neighbours are on average, which keeps lines short and crossings few. A line that passes a
layer gets a position there as well, so that it runs between the nodes and not through them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from catchment.pipelines.drawing.picture import Picture

_SWEEPS: Final = 8


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
