"""The table of ratios: our number over that of each peer, the bar and whether it is cleared, and the measured numbers."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from catchment.bench.measure import Measure
from catchment.bench.results import Results, Row
from catchment.bench.target import OURS

_NOT_MEASURED = "—"


def ratio_tables(results: Results) -> Iterator[Table]:
    """A table for every section, with a column for each peer that was measured there."""
    for section, peers, rows in results.sections():
        table = Table(title=f"{section.title} (ours / theirs)", title_justify="left")
        # On a narrow terminal, the names of the workloads are shortened and the numbers stay complete.
        table.add_column("workload", min_width=16)
        for peer in peers:
            table.add_column(f"× {peer}", justify="right", no_wrap=True)
        for name in (OURS, *peers):
            table.add_column(Text(name, style="dim"), justify="right", style="dim", no_wrap=True)
        table.add_column("", style="dim", no_wrap=True)
        for row in rows:
            table.add_row(
                row.measure.title,
                *(_ratio_cell(row, peer) for peer in peers),
                *(_absolute_cell(row, name) for name in (OURS, *peers)),
                row.measure.unit,
            )
        yield table


def _ratio_cell(row: Row, peer: str) -> Text:
    found = row.ratio(peer)
    if found is None:
        return Text(_NOT_MEASURED, style="dim")
    text = Text(f"{found:.2f}")
    if peer == row.measure.bar_peer:
        _append_verdict(text, row.measure, found, row.measure.bar)
    return text


def _append_verdict(text: Text, measure: Measure, value: float, bound: float | None) -> None:
    passed = measure.passes(value, bound)
    if passed is not None:
        comparison = "≥" if measure.higher_is_better else "≤"
        mark = "✓" if passed else "✗"
        text.append(f" {mark} {comparison}{bound:g}", style="green" if passed else "red")


def _absolute_cell(row: Row, name: str) -> Text:
    value = row.median(name)
    if value is None:
        return Text(_NOT_MEASURED)
    text = Text(significant(value))
    spread = row.spread(name)
    if spread:
        text.append(f" ±{spread:.0%}")
    if name == OURS:
        _append_verdict(text, row.measure, value, row.measure.limit)
    return text


def significant(value: float) -> str:
    """Three significant figures with thousands separators, which is more than a shared machine is precise."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
