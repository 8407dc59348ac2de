"""All numbers of a run: every round of every measure for every server, by section."""

from __future__ import annotations

import itertools
import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catchment.bench.measure import Measure, Section, ratio
from catchment.bench.target import CEILING, OURS


@dataclass(frozen=True, slots=True)
class Row:
    """One measure of a section, with the rounds of each server."""

    section: Section
    measure: Measure
    rounds: Mapping[str, list[float]]

    def median(self, name: str) -> float | None:
        """The median of a server's rounds, if it has any."""
        values = self.rounds.get(name)
        return statistics.median(values) if values else None

    def spread(self, name: str) -> float:
        """Half the range of a server's rounds, as a share of the median."""
        values = self.rounds.get(name, ())
        return (max(values) - min(values)) / 2 / statistics.median(values) if len(values) > 1 else 0.0

    def ratio(self, peer: str) -> float | None:
        """Our median divided by the peer's."""
        return ratio(self.median(OURS), self.median(peer))

    def passed(self) -> bool | None:
        """Whether the row's bar and limit are kept; None if it has neither, or no number."""
        judged = [(self.ratio(self.measure.bar_peer), self.measure.bar), (self.median(OURS), self.measure.limit)]
        verdicts = [self.measure.passes(value, bound) for value, bound in judged if value is not None]
        known = [verdict for verdict in verdicts if verdict is not None]
        return all(known) if known else None


@dataclass(slots=True)
class Results:
    """Filled by the runner, read by table, plot and JSON."""

    peers: list[str]
    unavailable: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _rounds: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=lambda: defaultdict(dict))
    _rows: dict[tuple[str, str], tuple[Section, Measure]] = field(default_factory=dict)

    def expect(self, section: Section, measure: Measure) -> None:
        """Define the position of a measure in the order of rows."""
        self._rows[section.key, measure.key] = (section, measure)

    def add(self, section: Section, name: str, values: Mapping[str, float]) -> None:
        """Add one round of one server."""
        for key, value in values.items():
            self._rounds[section.key, key].setdefault(name, []).append(value)

    def rows(self) -> Iterator[Row]:
        """Every measure for which any server has a number, in the order of the plan."""
        for key, (section, measure) in self._rows.items():
            if key in self._rounds:
                yield Row(section, measure, self._rounds[key])

    def sections(self) -> Iterator[tuple[Section, list[str], list[Row]]]:
        """Every section that has rows, with the names of the other servers measured in it."""
        for section, rows in itertools.groupby(self.rows(), key=lambda row: row.section):
            found = list(rows)
            names = [name for name in (*self.peers, CEILING) if any(name in row.rounds for row in found)]
            yield section, names, found

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
            "section": row.section.key,
            "key": row.measure.key,
            "title": row.measure.title,
            "unit": row.measure.unit,
            "higher_is_better": row.measure.higher_is_better,
            "bar": row.measure.bar,
            "bar_peer": row.measure.bar_peer,
            "limit": row.measure.limit,
            "passed": row.passed(),
            "medians": {name: row.median(name) for name in row.rounds},
            "rounds": dict(row.rounds),
            "ratios": {peer: row.ratio(peer) for peer in (*self.peers, CEILING) if row.ratio(peer) is not None},
        }
