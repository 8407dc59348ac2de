"""`catchment pipeline status` and `stop`: the pipelines that run on this machine or have run."""

import os
import signal
import time
from typing import Annotated, Any

import typer

from catchment.cli.failure import CommandError
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note, print_table
from catchment.cli.pipeline.files import AnyHome, PipelineOrFile, pipeline_homes

_POLL_S = 0.2


def status(
    name: PipelineOrFile = None,
    home: AnyHome = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Only pipelines that run on this master.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the status of running pipelines, and how earlier runs ended."""
    from catchment.pipelines.driving.status.panel import accounts, alerts
    from catchment.pipelines.driving.supervision.run_file import report

    found = [report(one) | {"home": str(one.root)} for one in pipeline_homes(home, name)]
    found = [one for one in found if master in (None, one.get("master"))]
    if as_json:
        print_json(found[0] if name and found else found)
        return
    columns = (
        "pipeline",
        "version",
        "state",
        "pid:",
        "query",
        "rows/s:",
        "lag:",
        "watermark",
        "batch ms:",
        "restarts:",
    )
    print_table(columns, [row for one in found for row in _rows(one)])
    for one in found:
        for said in (*accounts(one), *alerts(one)):
            print_note(f"{one['pipeline']}: {said}")
        faults = [f"! {fault}" for fault in one.get("faults", ())]
        for said in [*one.get("notes", ()), *faults, *([one["error"]] if one.get("error") else [])]:
            print_note(f"{one['pipeline']}: {said}")


def _rows(run: dict[str, Any]) -> list[tuple[object, ...]]:
    """A line for each query, and one for a pipeline without queries."""
    head = (run["pipeline"], _shown(run.get("version")), run["state"], _shown(run.get("pid")))
    queries = run.get("queries") or [{}]
    return [
        (
            *head,
            *(_shown(one.get(field)) for field in ("name", "rows_per_s", "lag", "watermark", "batch_ms", "restarts")),
        )
        for one in queries
    ]


def _shown(value: object) -> object:
    return "–" if value is None else value


def stop(
    name: PipelineOrFile = None,
    home: AnyHome = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Without a name, stop all pipelines that run on this master."),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait until it has stopped.")
    ] = 90.0,
) -> None:
    """Stop a pipeline cleanly: its queries, then Spark. The next run continues where it stopped."""
    from catchment.pipelines.driving.supervision.run_file import is_running, report

    if name is None and master is None:
        raise typer.BadParameter("name a pipeline, or a --master whose pipelines to stop", param_hint="PIPELINE")
    homes = [
        one for one in pipeline_homes(home, name) if is_running(one) and master in (None, report(one).get("master"))
    ]
    if name is not None and not homes:
        raise CommandError(f"pipeline {name} is not running", "`catchment pipeline status` shows those that are.")
    for one in homes:
        run = report(one)
        # A driver whose supervisor was killed stops by itself; a second signal does no harm.
        _signal(run.get("pid")) or _signal(run.get("driver_pid"))
    deadline = time.monotonic() + timeout_s
    for one in homes:
        while is_running(one):
            if time.monotonic() > deadline:
                raise CommandError(f"pipeline {one.pipeline} has not stopped after {timeout_s:g} s")
            time.sleep(_POLL_S)
        print_note(f"{one.pipeline} stopped")


def _signal(process: int | None) -> bool:
    if process is None:
        return False
    try:
        os.kill(process, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True
