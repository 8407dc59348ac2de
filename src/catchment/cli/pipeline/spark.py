"""`catchment spark`: what Spark needs beside its pip package."""

from __future__ import annotations

from typing import Annotated

import typer

from catchment.cli.failure import CommandError
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


@app.command("jars")
def jars(
    joined: Annotated[
        bool,
        typer.Option("--joined", help="Print the paths on one line, separated by commas, as `spark.jars` takes them."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch the jars of Spark's own Kafka connector, which real-time mode needs, and print their paths.

    Maven fetches them once; they stay in the user's cache.
    """
    from catchment.spark.launch.connector_jars import JarsUnavailable, connector_jars

    try:
        paths = [str(path) for path in connector_jars(lambda artifact: print_note(f"fetching {artifact}"))]
    except JarsUnavailable as error:
        raise CommandError(error.message, error.advice) from error
    if as_json:
        print_json({"jars": paths})
    else:
        typer.echo(("," if joined else "\n").join(paths))
