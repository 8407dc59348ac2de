"""Whether a row costs more with more partitions, or with more rows. Our source alone, all columns, 100 B."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from catchment.bench.growth.report import Growth
from catchment.bench.runner import Progress
from catchment.bench.spark.reading import read_cost
from catchment.bench.spark.side import EXACTLY_ONCE
from catchment.bench.spark.stage import Stage, TopicShape

FLAT_BAR = 1.3
_RECORD_BYTES = 100
_FEW_PARTITIONS = 8
_MANY_TIMES = 8


def partition_shapes(records: int, cores: int) -> dict[int, TopicShape]:
    """The same rows in more partitions, never fewer than cores, so that no size uses more cores."""
    few = max(_FEW_PARTITIONS, cores)
    return {count: TopicShape(_RECORD_BYTES, records, count) for count in (few, few * _MANY_TIMES)}


def record_shapes(counts: Iterable[int]) -> dict[int, TopicShape]:
    """More rows in the same number of partitions."""
    return {count: TopicShape(_RECORD_BYTES, count) for count in counts}


def step_count(growths: Mapping[str, tuple[str, Mapping[int, TopicShape]]], rounds: int) -> int:
    """How many steps measuring all of these will report."""
    return sum(len(shapes) for _, shapes in growths.values()) * (rounds + 1)


def measure(stage: Stage, title: str, shapes: Mapping[int, TopicShape], rounds: int, progress: Progress) -> Growth:
    """The cost of a row at each size, smallest first; the sizes take turns, and a first round does not count."""
    costs_ns: dict[int, list[float]] = {size: [] for size in shapes}
    for number in range(rounds + 1):
        for size, shape in shapes.items():
            progress.describe(f"{title}: {size:,} · {f'round {number}' if number else 'warming up'}")
            cost_ns = read_cost(stage, EXACTLY_ONCE, shape).seconds / shape.records * 1e9
            if number:
                costs_ns[size].append(cost_ns)
            progress.advance()
    return Growth(title, "ns a row", {size: statistics.median(costs) for size, costs in costs_ns.items()}, FLAT_BAR)
