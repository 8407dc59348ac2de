"""`catchment bench`: measure the broker, Spark and pipelines beside their peers."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack
from typing import Annotated

import typer

from catchment.bench import plan, runner
from catchment.bench.growth.report import MEASUREMENTS, Growth, growth_table
from catchment.bench.peers.maven import PeerUnavailable, connector_jars
from catchment.bench.plan import is_wanted
from catchment.bench.results import Results
from catchment.bench.target import CEILING, KAFKA, OURS, PEERS, factories
from catchment.cli.bench.report import (
    DEFAULT_ROUNDS,
    Cores,
    JsonFile,
    PlotFile,
    Rounds,
    Workloads,
    bench_console,
    growths_as_json,
    report,
    shown_progress,
)
from catchment.cli.failure import CommandError
from catchment.cli.output import print_note

app = typer.Typer(no_args_is_help=True)
_GROWTH_REQUESTS = 20_000
_QUICK_STEP_S = 2.5
_STEP_S = 7.0
_WARM_UP_S = 8.0
_FEW_MINUTES = 2.0
_BROKERS = (OURS, KAFKA)


@app.callback()
def bench() -> None:
    """Measure Catchment beside its peers."""
    # The servers are child processes: exit by an exception, so that they are stopped.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


@app.command()
def broker(
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(PEERS),
            help="A peer to compare with, which is downloaded if necessary. May be repeated.",
            show_default="none, only the ceiling",
        ),
    ] = None,
    workload: Workloads = None,
    rounds: Rounds = DEFAULT_ROUNDS,
    quick: Annotated[
        bool, typer.Option(help="Small volumes and the plain shapes only: a preview, not a result.")
    ] = False,
    full: Annotated[bool, typer.Option(help="Every combination of size, acks, partitions and codec.")] = False,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Run the same workloads against Catchment, its peers and the ceiling, and print the ratios.

    The ceiling is a server that answers requests and stores nothing. What will run, and about how long, is printed first.
    """
    console = bench_console()
    peers = list(dict.fromkeys(peer or ()))
    if unknown := set(peers) - set(PEERS):
        raise typer.BadParameter(f"no such peer: {', '.join(sorted(unknown))}", param_hint="--peer")
    results = Results(peers=peers)
    found = runner.sessions(
        lambda policy: plan.selected(plan.workloads(policy, quick=quick, full=full), workload or [])
    )
    if not found:
        raise typer.BadParameter("no workload has such a name", param_hint="--workload")
    names = [OURS, *peers, CEILING]
    steps = runner.step_count(found, names, rounds)
    print_note(_announcement(found, names, steps, peers, quick=quick))
    try:
        with shown_progress(console, steps) as progress:
            runner.run(found, names, rounds, results, progress)
    finally:
        # An interrupted run has results too.
        report(console, results, json_file, plot_file)


def _announcement(found: list[runner.Session], names: list[str], steps: int, peers: list[str], *, quick: bool) -> str:
    """What will run, and about how long; measured with two cores."""
    warm_ups = sum(len(factories(session.policy, names)) for session in found)
    minutes = (steps * (_QUICK_STEP_S if quick else _STEP_S) + warm_ups * _WARM_UP_S) / 60
    length = "a minute or two" if minutes < _FEW_MINUTES else f"about {minutes:.0f} minutes"
    hint = (
        ""
        if peers
        else "\nNo --peer is given: add --peer kafka to compare with Apache Kafka, which needs Java and Maven."
    )
    return f"measuring {', '.join(names)}: {steps} steps, {length}; Ctrl-C ends it and prints what was measured{hint}"


@app.command()
def growth(
    workload: Annotated[
        list[str] | None, typer.Option(metavar="|".join(MEASUREMENTS), help="Only this growth. Repeatable.")
    ] = None,
    requests: Annotated[
        int, typer.Option(metavar="N", min=1_000, help="Requests in each measurement.")
    ] = _GROWTH_REQUESTS,
    json_file: JsonFile = None,
) -> None:
    """Measure whether the cost of a request grows with partitions and connections, and that of a seek with the log."""
    if unknown := set(workload or ()) - set(MEASUREMENTS):
        raise typer.BadParameter(f"no workload has such a name: {', '.join(sorted(unknown))}", param_hint="--workload")
    console = bench_console()
    found = []
    for name in workload or MEASUREMENTS:
        with console.status(f"measuring growth by {name}"):
            found.extend(MEASUREMENTS[name](requests))
    console.print(growth_table(found))
    if json_file is not None:
        json_file.write_text(json.dumps(growths_as_json(found), indent=2) + "\n")


@app.command()
def pipeline(
    workload: Workloads = None,
    rounds: Rounds = DEFAULT_ROUNDS,
    cores: Cores = None,
    quick: Annotated[bool, typer.Option(help="A twentieth of the volume: a preview, not a result.")] = False,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Run a pipeline and the same stages written by hand over the same events, and print the ratios."""
    try:
        # Spark takes a second to import, and is an extra that the other benchmarks do not need.
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
        # An interrupted run has results too.
        report(console, results, json_file, plot_file)


@app.command()
def spark(
    broker: Annotated[str, typer.Option(metavar="|".join(_BROKERS), help="The broker that both sides use.")] = OURS,
    workload: Workloads = None,
    rounds: Rounds = DEFAULT_ROUNDS,
    cores: Cores = None,
    quick: Annotated[bool, typer.Option(help="A twentieth of the volume: a preview, not a result.")] = False,
    full: Annotated[bool, typer.Option(help="Growth up to 100 million records, which take 12 GB of disk.")] = False,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Read, write and stream with our format and with Spark's own on the same broker, and print the ratios."""
    if broker not in _BROKERS:
        raise typer.BadParameter(f"no such broker: {broker}", param_hint="--broker")
    try:
        # Spark takes a second to import, and is an extra that the other benchmarks do not need.
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
        raise CommandError(f"Spark's own connector is not available: {error}") from error
    finally:
        # An interrupted run has results too.
        report(console, results, json_file, plot_file, grown)
