"""`catchment bench spark`: our Spark source and sink beside Spark's own Kafka connector, in one session."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from catchment.bench.growth.report import Growth
from catchment.bench.peers.maven import PeerUnavailable
from catchment.bench.plan import is_wanted
from catchment.bench.results import Results
from catchment.bench.target import KAFKA, OURS
from catchment.cli.bench_options import DEFAULT_ROUNDS, Cores, JsonFile, PlotFile, Rounds, Workloads
from catchment.cli.bench_report import bench_console, report, shown_progress
from catchment.cli.failure import CommandError

_BROKERS = (OURS, KAFKA)


def spark(
    broker: Annotated[str, typer.Option(metavar="|".join(_BROKERS), help="The broker that both sides use.")] = OURS,
    workload: Workloads = None,
    rounds: Rounds = DEFAULT_ROUNDS,
    cores: Cores = None,
    quick: Annotated[bool, typer.Option(help="A twentieth of the volume: a look, not a result.")] = False,
    full: Annotated[bool, typer.Option(help="Growth up to 100 million records, which take 12 GB of disk.")] = False,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Read, write and stream with our format and with Spark's own on the same broker, and print the ratios."""
    if broker not in _BROKERS:
        raise typer.BadParameter(f"no such broker: {broker}", param_hint="--broker")
    try:
        # Spark takes a second to import, and is an extra: whoever asks for another command need not have it.
        from catchment.bench.spark import growth, plan, runner
        from catchment.bench.spark.stage import raised_stage
    except ImportError as error:
        raise CommandError(
            f"the benchmark of Spark cannot be loaded: {error}", "pip install 'catchment-streaming[spark]'"
        ) from error
    workloads = [found for found in plan.workloads(quick=quick) if is_wanted(found.name, workload or [])]
    core_count = cores or os.cpu_count() or 1
    planned = plan.growths(core_count, quick=quick, full=full)
    growths = {name: found for name, found in planned.items() if is_wanted(name, workload or [])}
    if not workloads and not growths:
        raise typer.BadParameter("no workload has such a name", param_hint="--workload")
    console = bench_console()
    results = Results(peers=runner.peer_columns(workloads))
    grown: list[Growth] = []
    steps = runner.step_count(workloads, rounds) + growth.step_count(growths, rounds)
    try:
        with shown_progress(console, steps) as progress, raised_stage(broker, core_count) as stage:
            runner.run(stage, workloads, rounds, results, progress)
            for title, shapes in growths.values():
                grown.append(growth.measure(stage, title, shapes, rounds, progress))
    except PeerUnavailable as error:
        raise CommandError(f"Spark's own connector cannot be had: {error}") from error
    finally:
        # A run that is broken off has measured something too.
        report(console, results, json_file, plot_file, grown)
