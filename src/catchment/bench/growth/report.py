"""Run the growth measurements and say for each whether the cost stays flat."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

from rich.table import Table

from catchment.bench.growth.requests import (
    connections_load,
    create_partitions,
    microseconds_a_request,
    single_record_load,
)
from catchment.bench.growth.sparse_log import measure_seeks, write_sparse_log
from catchment.bench.peers.catchment import CatchmentServer

FLAT_BAR = 1.5
PARTITION_COUNTS = (10, 1_000, 5_000)
CONNECTION_COUNTS = (10, 1_000)
LOG_GIGABYTES = (1, 100)
_SETTINGS = {"catchment.sync.acks": "false"}
_SEEKS = 300


@dataclass(frozen=True, slots=True)
class Growth:
    """One cost at two sizes or more, the smallest first."""

    title: str
    unit: str
    costs: dict[int, float]
    bar: float = FLAT_BAR

    @property
    def ratio(self) -> float:
        """The largest ratio of a cost to the lowest cost of the smaller sizes: a cost that is high only at small sizes has not grown."""
        costs = list(self.costs.values())
        return max(cost / best for cost, best in zip(costs[1:], accumulate(costs, min), strict=False))

    @property
    def is_flat(self) -> bool:
        """Whether that ratio is within the bar."""
        return self.ratio <= self.bar


def partitions(requests: int) -> list[Growth]:
    """The cost of a produce request to one busy partition, and to up to a thousand in turn, by the number of partitions."""
    one, spread = {}, {}
    for count in PARTITION_COUNTS:
        with CatchmentServer(_SETTINGS) as server:
            in_first_topic = create_partitions(server, "growth", count)
            one[count] = microseconds_a_request(server, single_record_load(server, "growth", 1), requests)
            spread[count] = microseconds_a_request(
                server, single_record_load(server, "growth", in_first_topic), requests
            )
    return [
        Growth("produce to one partition, by partitions in the broker", "µs CPU", one),
        Growth("produce to up to 1,000 in turn, by partitions in the broker", "µs CPU", spread),
    ]


def connections(requests: int) -> list[Growth]:
    """The cost of a small request, by connections."""
    costs = {}
    with CatchmentServer(_SETTINGS) as server:
        create_partitions(server, "growth", 1)
        for count in CONNECTION_COUNTS:
            costs[count] = microseconds_a_request(server, connections_load(server, "growth", count), requests)
    return [Growth("list offsets, by connections", "µs CPU", costs)]


def sparse_logs() -> list[Growth]:
    """Opening and seeking, by gigabytes of log."""
    times = {}
    for gigabytes in LOG_GIGABYTES:
        with tempfile.TemporaryDirectory(prefix="catchment-bench-sparse-") as temporary:
            directory = Path(temporary) / "sparse-0"
            times[gigabytes] = asdict(measure_seeks(directory, write_sparse_log(directory, gigabytes), _SEEKS))
    return [
        Growth(f"{name.removesuffix('_seconds').replace('_', ' ')}, by GB of log", "ms", values)
        for name in times[LOG_GIGABYTES[0]]
        for values in [{gigabytes: found[name] * 1e3 for gigabytes, found in times.items()}]
    ]


MEASUREMENTS: dict[str, Callable[[int], list[Growth]]] = {
    "partitions": partitions,
    "connections": connections,
    "log": lambda requests: sparse_logs(),
}


def growth_table(found: list[Growth]) -> Table:
    """The cost at each size, and the ratio with its verdict."""
    table = Table(title="How costs grow")
    table.add_column("cost")
    table.add_column("at each size")
    table.add_column("worst / best below", justify="right", no_wrap=True)
    for growth in found:
        verdict = f"[green]✓ ≤{growth.bar:g}[/green]" if growth.is_flat else f"[red]✗ ≤{growth.bar:g}[/red]"
        costs = " · ".join(f"{size:,}: {cost:.3g} {growth.unit}" for size, cost in growth.costs.items())
        table.add_row(growth.title, costs, f"{growth.ratio:.2f} {verdict}")
    return table
