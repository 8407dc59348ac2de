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
            "--from", metavar="TIME", help="Do not change windows that end by then, such as 2026-05-01T12:00."
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version", metavar="N", min=2, help="The version that the file must have: a safeguard for scripts."
        ),
    ] = None,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    servers: Servers = None,
    home: HomeFolder = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Recompute a stage from the for-ever store with the code that the file has now.

    The pipeline may keep running with its old code. Readers of the store see the old history until the new one is
    complete. Then run the pipeline with this file, so that new events are processed by the new code too.
    """
    from catchment.pipelines.command_context import opened
    from catchment.pipelines.history.backfill import backfill as recompute
    from catchment.pipelines.history.backfill import keep_version

    moment = None if since is None else _moment(since)
    with opened(file, home, servers, master) as context:
        _check_version(context, version, file)
        done: list[Backfilled] = []
        for one in recompute(context, stage, since=moment, is_dry_run=is_dry_run, report=print_note):
            done.append(one)
            # Before the next store, which may fail: this store shows the new version, so the pipeline must continue with it.
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
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-05-01T12:00:00", param_hint="--from") from error
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
    """Make every store of a stage show the version before the current one, atomically.

    Only a version that was shown before can be restored. Run the pipeline with the lower version again, so that new events are
    added to what is shown. A run does not show the later version again: a backfill does, or a higher version that starts from
    scratch.
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
        print_note(f"{one.table}: {again}; a run of this file does not")
