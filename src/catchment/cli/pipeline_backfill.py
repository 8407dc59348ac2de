"""`catchment pipeline backfill`: compute the history of a stage anew, and show it in one moment."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.failure import MISTAKEN, CommandError
from catchment.cli.known_pipelines import HomeFolder, Master, PipelineFile, Servers, StageName
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from catchment.pipelines.backfill import Backfilled
    from catchment.pipelines.execution.run_context import RunContext


def backfill(
    file: PipelineFile,
    stage: StageName,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Leave windows that end by then as they are, such as 2026-05-01T12:00."
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version", metavar="N", min=2, help="The version that the file must have: a safeguard for scripts."
        ),
    ] = None,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    servers: Servers = None,
    home: HomeFolder = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Recompute a stage from the for-ever store with the code that the file has now.

    The pipeline may go on running with the code it had. Readers of the store see the old history until all of the new one is
    there. Then run the pipeline with this file, so that new events are counted by the new code too.
    """
    from catchment.pipelines.backfill import backfill as recompute
    from catchment.pipelines.backfill import keep_version
    from catchment.pipelines.opening import opened

    moment = None if since is None else _moment(since)
    with opened(file, home, servers, master) as context:
        _check_version(context, version, file)
        done: list[Backfilled] = []
        for one in recompute(context, stage, since=moment, is_dry_run=is_dry_run, tell=print_note):
            done.append(one)
            # Before the next store is begun, which may fail: what is shown here must be gone on with.
            if one.is_shown:
                keep_version(context, one)
    rows = [
        {
            "table": one.table,
            "version": one.version,
            "until": one.until.isoformat(),
            "rows": one.rows,
            "same": one.changes.same,
            "changed": one.changes.changed,
            "added": one.changes.added,
            "removed": one.changes.removed,
            "shown": one.is_shown,
        }
        for one in done
    ]
    if as_json:
        print_json(rows)
    else:
        columns = ["table", "version:", "until", "rows:", "same:", "changed:", "added:", "removed:", "shown"]
        print_table(columns, [list(row.values()) for row in rows])


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no time as in 2026-05-01T12:00:00", param_hint="--from") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _check_version(context: "RunContext", wanted: int | None, file: "Path") -> None:
    declared = context.graph.specification.version
    if wanted is not None and declared != wanted:
        raise CommandError(
            f"{file} is version {declared}, not {wanted}", f"Set its version to {wanted}.", exit_code=MISTAKEN
        )
