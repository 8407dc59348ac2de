"""The table of ratios: ours over each peer's, the bar and whether it is cleared, and small beside it what was measured."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from catchment.bench.measure import BAR_PEER
from catchment.bench.results import Results, Row
from catchment.bench.target import CEILING, OURS

_NOT_MEASURED = "—"


def ratio_table(results: Results) -> Table:
    """One table for the whole run, with a section for every flush policy."""
    shown = [*results.peers, CEILING]
    table = Table(title="Catchment against its peers (ours / theirs)")
    # Where the terminal is narrow, the names of the workloads give way and the numbers stay whole.
    table.add_column("workload", min_width=16)
    for peer in shown:
        table.add_column(f"× {peer}", justify="right", no_wrap=True)
    for name in (OURS, *shown):
        table.add_column(Text(name, style="dim"), justify="right", style="dim", no_wrap=True)
    table.add_column("", style="dim", no_wrap=True)
    section = None
    for row in results.rows():
        if row.policy is not section:
            section = row.policy
            table.add_section()
            table.add_row(Text(section.title, style="bold"))
        table.add_row(
            row.measure.title,
            *(_ratio_cell(row, peer) for peer in shown),
            *(_absolute_cell(row, name) for name in (OURS, *shown)),
            row.measure.unit,
        )
    return table


def _ratio_cell(row: Row, peer: str) -> Text:
    found = row.ratio(peer)
    if found is None:
        return Text(_NOT_MEASURED, style="dim")
    text = Text(f"{found:.2f}")
    passed = row.passed() if peer == BAR_PEER else None
    if passed is not None:
        comparison = "≥" if row.measure.higher_is_better else "≤"
        mark = "✓" if passed else "✗"
        text.append(f" {mark} {comparison}{row.measure.bar:g}", style="green" if passed else "red")
    return text


def _absolute_cell(row: Row, name: str) -> str:
    value = row.median(name)
    return _NOT_MEASURED if value is None else significant(value)


def significant(value: float) -> str:
    """Three figures, with thousands set apart, which is more than a shared machine can promise."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
