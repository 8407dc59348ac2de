"""`catchment pipeline backfill` and `rollback`: change which version of its history a pipeline shows."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.failure import MISTAKEN, CommandError
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note, print_table
from catchment.cli.pipeline.files import HomeFolder, Master, PipelineFile, Servers, StageName

if TYPE_CHECKING:
    from pathlib import Path

    from catchment.pipelines.execution.run_context import RunContext
    from catchment.pipelines.history.backfill import Backfilled


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
    from catchment.pipelines.command_context import opened
    from catchment.pipelines.history.backfill import backfill as recompute
    from catchment.pipelines.history.backfill import keep_version

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


def rollback(
    file: PipelineFile,
    stage: StageName,
    as_json: AsJson = False,
) -> None:
    """Show the version before the one that is shown now, in every store that keeps a stage, in one moment.

    Only a version that was shown once is gone back to. Run the pipeline with the version lowered again, so that new events are
    counted into what is shown. A run does not show again what was gone back from: a backfill does, or a later version that starts
    from scratch.
    """
    from catchment.pipelines.command_context import read_graph
    from catchment.pipelines.history.backfill import rollback as go_back

    shown = list(go_back(*read_graph(file), stage))
    if as_json:
        print_json([one._asdict() for one in shown])
        return
    print_table(["table", "version:", "left:"], shown)
    for one in shown:
        again = f"a backfill shows version {one.left} again, or a later version that starts from scratch"
        print_note(f"{one.table}: {again}; to run this file does not")
