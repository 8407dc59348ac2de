"""Options that the verbs of `catchment pipeline` share, so that they are spelled and documented once."""

from pathlib import Path
from typing import Annotated

import typer

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
        envvar="CATCHMENT_BOOTSTRAP_SERVERS",
        help="The brokers, instead of those that the file names.",
        show_default=False,
    ),
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs: local[*], or spark://host:port.")
]
