"""`catchment pipeline reset` and `prune`: delete what a pipeline has stored."""

import sys
from contextlib import closing
from typing import Annotated

import typer

from catchment.cli.failure import MISTAKEN, CommandError
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note, print_table
from catchment.cli.pipeline.files import HomeFolder, PipelineFile, Servers


def reset(
    file: PipelineFile,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be deleted, and delete nothing.")
    ] = False,
    servers: Servers = None,
    home: HomeFolder = None,
    as_json: AsJson = False,
) -> None:
    """Delete everything that a pipeline has written, after listing it and asking. The next run creates and fills it again.

    That is its checkpoints, the topics between its queries, what it has quarantined, and the tables, lakes and topics of its
    sinks. Topics that it reads stay, and so does what another pipeline owns. The pipeline must not be running.
    """
    from catchment.pipelines.command_context import read_graph
    from catchment.pipelines.history.resetting import Resetting
    from catchment.pipelines.home import Home, default_home

    graph, folder = read_graph(file)
    pipeline_home = Home((home or default_home()).resolve(), graph.specification.pipeline)
    with closing(Resetting(graph, folder, pipeline_home, servers, is_dry_run=is_dry_run)) as resetting:
        found = resetting.found()
        for note in found.notes:
            print_note(f"note: {note}")
        if as_json:
            print_json([{"kind": one.kind, "name": one.what} for one in found.things])
        elif found.things:
            print_table(["kind", "name"], [(one.kind, one.what.removeprefix(f"{one.kind} ")) for one in found.things])
        else:
            print_note(f"pipeline {pipeline_home.pipeline} has no files, topics or tables to delete")
        if not found.things or is_dry_run:
            return
        if not yes:
            _ask(pipeline_home.pipeline)
        resetting.delete(found)
    print_note(f"pipeline {pipeline_home.pipeline} starts from scratch with its next run")


def _ask(pipeline: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError(
            f"nothing was deleted of pipeline {pipeline}: there is no terminal for the confirmation",
            "Add --yes to delete what is listed.",
            exit_code=MISTAKEN,
        )
    typer.confirm("Delete all of this, with every row in it?", abort=True)


def prune(
    file: PipelineFile,
    keep: Annotated[
        int, typer.Option("--keep", min=0, metavar="N", help="Earlier versions to keep for a rollback.")
    ] = 1,
    topics: Annotated[
        bool, typer.Option("--topics", help="Delete the topics between queries too, with the events that they hold.")
    ] = False,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")
    ] = False,
    servers: Servers = None,
    home: HomeFolder = None,
    as_json: AsJson = False,
) -> None:
    """Delete checkpoints and versions of tables, except those of the file's version and of the last ones before it.

    The version that a table shows is kept, and so are lakes. The pipeline must not be running.
    """
    from catchment.pipelines.command_context import read_graph
    from catchment.pipelines.declaration.addresses import broker_settings, brokers
    from catchment.pipelines.execution.topics import TopicAdmin
    from catchment.pipelines.history.pruning import prune as remove
    from catchment.pipelines.home import Home, default_home

    graph, folder = read_graph(file)
    specification = graph.specification
    found = remove(
        graph,
        folder,
        Home((home or default_home()).resolve(), specification.pipeline),
        keeps=keep,
        topics=TopicAdmin(brokers(specification, servers), broker_settings(specification)) if topics else None,
        is_dry_run=is_dry_run,
    )
    if as_json:
        print_json([one._asdict() for one in found])
    elif found:
        print_table(["kind", "of", "version:"], found)
    else:
        print_note("no earlier version to delete")
