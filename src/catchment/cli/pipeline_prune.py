"""`catchment pipeline prune`: delete what earlier versions of a pipeline have left."""

from typing import Annotated

import typer

from catchment.cli.known_pipelines import HomeFolder, PipelineFile, Servers
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note, print_table


def prune(
    file: PipelineFile,
    keep: Annotated[
        int, typer.Option("--keep", min=0, metavar="N", help="Earlier versions to keep for a rollback.")
    ] = 1,
    topics: Annotated[
        bool, typer.Option("--topics", help="Delete the topics between queries too, with the events that they hold.")
    ] = False,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")] = False,
    servers: Servers = None,
    home: HomeFolder = None,
    as_json: AsJson = False,
) -> None:
    """Delete checkpoints and versions of tables that neither the file's version nor one of the last before it needs.

    What a table shows stays, and so do lakes. The pipeline must not be running.
    """
    from catchment.pipelines.brokers import broker_settings, brokers
    from catchment.pipelines.execution.topics import TopicAdmin
    from catchment.pipelines.home import Home, default_home
    from catchment.pipelines.opening import read_graph
    from catchment.pipelines.pruning import prune as remove

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
        print_note("nothing is left of versions that are not needed")
