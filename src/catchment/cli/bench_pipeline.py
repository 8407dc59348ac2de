"""`catchment bench pipeline`: what a pipeline costs beside the same stages written by hand, and how long an event takes."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Annotated

import typer

from catchment.bench.peers.maven import PeerUnavailable
from catchment.bench.peers.spark_connector import connector_jars
from catchment.bench.plan import is_wanted
from catchment.bench.results import Results
from catchment.bench.target import OURS
from catchment.cli.bench_options import DEFAULT_ROUNDS, Cores, JsonFile, PlotFile, Rounds, Workloads
from catchment.cli.bench_report import bench_console, report, shown_progress
from catchment.cli.failure import CommandError


def pipeline(
    workload: Workloads = None,
    rounds: Rounds = DEFAULT_ROUNDS,
    cores: Cores = None,
    quick: Annotated[bool, typer.Option(help="A twentieth of the volume: a look, not a result.")] = False,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Run a pipeline and the same stages written by hand over the same events, and print the ratios."""
    try:
        # Spark takes a second to import, and is an extra: whoever asks for another command need not have it.
        from catchment.bench.pipelines import plan
        from catchment.bench.spark import runner
        from catchment.bench.spark.stage import raised_stage
    except ImportError as error:
        raise CommandError(
            f"the benchmark of pipelines cannot be loaded: {error}", "pip install 'catchment-streaming[pipelines]'"
        ) from error
    workloads = [found for found in plan.workloads(quick=quick) if is_wanted(found.name, workload or [])]
    if not workloads:
        raise typer.BadParameter("no workload has such a name", param_hint="--workload")
    console = bench_console()
    results = Results(peers=runner.peer_columns(workloads))
    with_connector = [found for found in workloads if plan.needs_connector(found)]
    try:
        if with_connector:
            connector_jars()
    except PeerUnavailable as error:
        results.unavailable |= {found.name: str(error) for found in with_connector}
        workloads = [found for found in workloads if found not in with_connector]
        with_connector = []
    try:
        with ExitStack() as stack:
            if workloads:
                progress = stack.enter_context(shown_progress(console, runner.step_count(workloads, rounds)))
                stage = stack.enter_context(
                    raised_stage(OURS, cores or os.cpu_count() or 1, plan.SETTINGS, with_connector=bool(with_connector))
                )
                runner.run(stage, workloads, rounds, results, progress)
    finally:
        # A run that is broken off has measured something too.
        report(console, results, json_file, plot_file)
