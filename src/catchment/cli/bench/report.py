"""What all benchmarks share: their options, their progress, the tables of a run, and the same as JSON and as a picture."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from catchment.bench.growth.report import Growth, growth_table
from catchment.bench.plot import save_plot
from catchment.bench.results import Results
from catchment.bench.runner import Progress
from catchment.bench.table import ratio_tables

DEFAULT_ROUNDS = 3

Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload", metavar="NAME", help="Only workloads whose name starts so, or matches this pattern. Repeatable."
    ),
]
Rounds = Annotated[
    int, typer.Option("--rounds", metavar="N", min=1, help="Rounds of each workload; the median counts.")
]
Cores = Annotated[
    int | None, typer.Option("--cores", metavar="N", min=1, help="Cores of the session.", show_default="all")
]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all numbers to this file.")]
PlotFile = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Save the ratios as PNG or SVG.")]


_WIDTH_WITHOUT_TERMINAL = 170


def bench_console() -> Console:
    """The terminal. A file or a pipe has no width of its own; a table takes what it needs there."""
    return Console() if sys.stdout.isatty() else Console(width=_WIDTH_WITHOUT_TERMINAL)


@contextmanager
def shown_progress(console: Console, steps: int) -> Iterator[Progress]:
    """A bar that says what is going on, until the block ends."""
    bar = ProgressBar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bar:
        task = bar.add_task("starting", total=steps)
        yield Progress(describe=lambda text: bar.update(task, description=text), advance=lambda: bar.advance(task))


def report(
    console: Console,
    results: Results,
    json_file: Path | None,
    plot_file: Path | None = None,
    growths: Sequence[Growth] = (),
) -> None:
    """Print what was measured, name what was not, and write the files that were asked for."""
    for table in ratio_tables(results):
        console.print(table)
    if growths:
        console.print(growth_table(list(growths)))
    for name, reason in results.unavailable.items():
        console.print(f"[yellow]{name} was not measured:[/yellow] {escape(reason)}")
    for failure in results.failures:
        console.print(f"[red]failed:[/red] {escape(failure)}")
    if json_file is not None:
        document = results.as_json() | ({"growth": growths_as_json(growths)} if growths else {})
        json_file.write_text(json.dumps(document, indent=2) + "\n")
    if plot_file is not None:
        save_plot(results, plot_file)


def growths_as_json(growths: Sequence[Growth]) -> list[dict[str, object]]:
    """The costs at each size, with the ratio."""
    return [{**asdict(each), "ratio": each.ratio} for each in growths]
