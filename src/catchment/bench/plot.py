"""The ratios as a picture: one bar for every measure and peer, on a logarithmic scale."""

from __future__ import annotations

from pathlib import Path

from catchment.bench.measure import BAR_PEER
from catchment.bench.results import Results

_ROW_INCHES = 0.32


def save_plot(results: Results, path: Path) -> None:
    """Write the picture in the format of the file's extension."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise RuntimeError("the plot needs matplotlib: pip install 'catchment-streaming[bench]'") from missing
    rows = list(results.rows())
    figure = Figure(figsize=(11, 1.5 + _ROW_INCHES * max(1, len(rows))), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / max(1, len(results.peers))
    for index, peer in enumerate(results.peers):
        found = [(place, row.ratio(peer)) for place, row in enumerate(rows)]
        measured = [(place + index * height, value) for place, value in found if value]
        # Each bar starts at one, where both are equal, and extends to the better or the worse side.
        axes.barh(
            [place for place, _ in measured],
            [value - 1 for _, value in measured],
            height,
            left=1,
            label=f"ours / {peer}",
        )
    if BAR_PEER in results.peers:
        bars = [(place, row.measure.bar) for place, row in enumerate(rows) if row.measure.bar]
        axes.scatter(
            [bar for _, bar in bars], [place for place, _ in bars], marker="|", color="black", s=120, label="bar"
        )
    axes.axvline(1, color="grey", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:g}×")
    titles = [f"{row.measure.title} ({row.section.key}) {'→' if row.measure.higher_is_better else '←'}" for row in rows]
    axes.set_yticks(range(len(rows)), titles, fontsize=8)
    axes.invert_yaxis()
    axes.set_title("Catchment compared with its peers; the arrow points to the better side")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize=8)
    figure.savefig(path)
