"""The pipelines of this machine, for the commands that work with them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.failure import CommandError
from catchment.cli.options import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP_SERVERS

if TYPE_CHECKING:
    from catchment.pipelines.home import Home

PipelineFile = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline: a .py or a .yaml file.")]
StageName = Annotated[str, typer.Argument(metavar="STAGE", help="A stage with a function or SQL.")]
HomeFolder = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIRECTORY",
        envvar="CATCHMENT_PIPELINES_HOME",
        help="Where pipelines keep their checkpoints.",
        show_default="~/.local/state/catchment/pipelines",
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(
        "--servers",
        "-b",
        metavar="HOST:PORT[,…]",
        help=f"The brokers. Else those that the file names, or {BOOTSTRAP_VARIABLE}.",
        show_default=DEFAULT_BOOTSTRAP_SERVERS,
    ),
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs: local[*], or spark://host:port.")
]


def pipeline_homes(root: Path | None, name: str | None) -> list["Home"]:
    """All pipelines that ever ran below a folder, or the one of a name."""
    from catchment.pipelines.driving.run_file import runs
    from catchment.pipelines.home import default_home

    found = [one for one in runs((root or default_home()).resolve()) if name in (None, one.pipeline)]
    if name is not None and not found:
        raise CommandError(
            f"pipeline {name} never ran in {(root or default_home()).resolve()}",
            "Check its name, or say with --home where it keeps its checkpoints.",
        )
    return found
