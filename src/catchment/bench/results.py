"""All numbers of a run: every round of every measure for every server, under each flush policy."""

from __future__ import annotations

import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catchment.bench.measure import BAR_PEER, Measure, ratio
from catchment.bench.target import CEILING, OURS, FlushPolicy


@dataclass(frozen=True, slots=True)
class Row:
    """One measure under one policy, with the rounds of each server."""

    policy: FlushPolicy
    measure: Measure
    rounds: Mapping[str, list[float]]

    def median(self, name: str) -> float | None:
        """The middle one of a server's rounds, if it has any."""
        values = self.rounds.get(name)
        return statistics.median(values) if values else None

    def ratio(self, peer: str) -> float | None:
        """Ours over the peer's."""
        return ratio(self.median(OURS), self.median(peer))

    def passed(self) -> bool | None:
        """Whether the bar against Kafka is cleared; None where there is no bar or no number."""
        against_kafka = self.ratio(BAR_PEER)
        return None if against_kafka is None else self.measure.passes(against_kafka)


@dataclass(slots=True)
class Results:
    """Filled by the runner, read by table, plot and JSON."""

    peers: list[str]
    unavailable: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _rounds: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=lambda: defaultdict(dict))
    _rows: dict[tuple[str, str], tuple[FlushPolicy, Measure]] = field(default_factory=dict)

    def expect(self, policy: FlushPolicy, measure: Measure) -> None:
        """Give a measure its place in the order of rows."""
        self._rows[policy.key, measure.key] = (policy, measure)

    def add(self, policy: FlushPolicy, name: str, values: Mapping[str, float]) -> None:
        """Take in one round of one server."""
        for key, value in values.items():
            self._rounds[policy.key, key].setdefault(name, []).append(value)

    def rows(self) -> Iterator[Row]:
        """Every measure for which any server has a number, in the order of the plan."""
        for key, (policy, measure) in self._rows.items():
            if key in self._rounds:
                yield Row(policy, measure, self._rounds[key])

    def as_json(self) -> dict[str, Any]:
        """The whole run for scripts."""
        return {
            "machine": {
                "processors": os.cpu_count(),
                "system": platform.platform(),
                "python": platform.python_version(),
            },
            "unavailable": self.unavailable,
            "failures": self.failures,
            "rows": [self._row_as_json(row) for row in self.rows()],
        }

    def _row_as_json(self, row: Row) -> dict[str, Any]:
        return {
            "policy": row.policy.key,
            "key": row.measure.key,
            "title": row.measure.title,
            "unit": row.measure.unit,
            "higher_is_better": row.measure.higher_is_better,
            "bar": row.measure.bar,
            "passed": row.passed(),
            "medians": {name: row.median(name) for name in row.rounds},
            "rounds": dict(row.rounds),
            "ratios": {peer: row.ratio(peer) for peer in (*self.peers, CEILING) if row.ratio(peer) is not None},
        }
