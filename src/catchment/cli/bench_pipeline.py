"""`catchment bench pipeline`: what a pipeline costs beside the same stages written by hand, and how long an event takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from catchment.bench.peers.maven import PeerUnavailable
from catchment.bench.plan import is_wanted
from catchment.bench.results import Results
from catchment.bench.target import OURS
from catchment.cli.bench_report import bench_console, report, shown_progress
from catchment.cli.failure import CommandError

_DEFAULT_ROUNDS = 3


def pipeline(
    workload: Annotated[list[str] | None, typer.Option(help="Only workloads whose name starts so. Repeatable.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each workload; the median counts.")] = _DEFAULT_ROUNDS,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of the session; all unless told.")] = None,
    quick: Annotated[bool, typer.Option(help="A twentieth of the volume: a look, not a result.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this file.")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", help="Save the ratios as PNG or SVG.")] = None,
) -> None:
    """Run a pipeline and the same stages written by hand over the same events, and print the ratios."""
    try:
        # Spark takes a second to import, and is an extra: whoever asks for another command need not have it.
        from catchment.bench.pipelines import plan
        from catchment.bench.spark import runner
        from catchment.bench.spark.stage import raised_stage
    except ImportError as error:
        raise CommandError(
            f"the benchmark of pipelines cannot be loaded: {error}", "pip install 'catchment[pipelines]'"
        ) from error
    workloads = [found for found in plan.workloads(quick=quick) if is_wanted(found.name, workload or [])]
    if not workloads:
        raise typer.BadParameter("no workload has such a name", param_hint="--workload")
    console = bench_console()
    results = Results(peers=runner.peer_columns(workloads))
    try:
        with (
            shown_progress(console, runner.step_count(workloads, rounds)) as progress,
            raised_stage(OURS, cores or os.cpu_count() or 1, plan.SETTINGS) as stage,
        ):
            runner.run(stage, workloads, rounds, results, progress)
    except PeerUnavailable as error:
        raise CommandError(f"Spark's own connector cannot be had: {error}") from error
    finally:
        # A run that is broken off has measured something too.
        report(console, results, json_file, plot_file)
