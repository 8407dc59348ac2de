"""`catchment pipeline stop`: the clean end of a pipeline that runs somewhere on this machine."""

import os
import signal
import time
from typing import Annotated

import typer

from catchment.cli.failure import CommandError
from catchment.cli.known_pipelines import AnyHome, PipelineOrFile, pipeline_homes
from catchment.cli.output import print_note

_POLL_S = 0.2


def stop(
    name: PipelineOrFile = None,
    home: AnyHome = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Stop all that run on this master, if none is named."),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for the end.")
    ] = 90.0,
) -> None:
    """Stop a pipeline cleanly: its queries, then Spark. It goes on where it was when it is run again."""
    from catchment.pipelines.driving.reports import report
    from catchment.pipelines.driving.run_file import is_running

    if name is None and master is None:
        raise typer.BadParameter("name a pipeline, or a --master whose pipelines to stop", param_hint="PIPELINE")
    homes = [
        one for one in pipeline_homes(home, name) if is_running(one) and master in (None, report(one).get("master"))
    ]
    if name is not None and not homes:
        raise CommandError(f"pipeline {name} is not running", "`catchment pipeline status` shows those that are.")
    for one in homes:
        run = report(one)
        # A driver whose supervisor was killed is about to stop by itself; it does no harm to say so again.
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
