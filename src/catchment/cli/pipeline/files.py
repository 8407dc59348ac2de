"""Pipelines as the commands name them, and what `plan` and `run` check before Spark starts: brokers and topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.extras import need_extra
from catchment.cli.failure import AWAY, CommandError
from catchment.cli.options import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP_SERVERS
from catchment.cli.output import print_note

if TYPE_CHECKING:
    from catchment.pipelines.declaration.loading import Loaded
    from catchment.pipelines.declaration.specification import PipelineSpecification
    from catchment.pipelines.home import Home


PipelineFile = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline: a .py or a .yaml file.")]
PipelineOrFile = Annotated[str | None, typer.Argument(metavar="PIPELINE", help="One pipeline: its file, or its name.")]
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
AnyHome = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIRECTORY",
        help="Look only in this home. Default: the usual home, and every home with a running pipeline.",
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT[,…]",
        help=f"The brokers. Else those that the file names, or {BOOTSTRAP_VARIABLE}.",
        show_default=DEFAULT_BOOTSTRAP_SERVERS,
    ),
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs: local[*], or spark://host:port.")
]


def pipeline_homes(root: Path | None, given: str | None) -> list[Home]:
    """The pipelines that have run in a home; without a home, also those that run in others; with a name or file, only that one."""
    from catchment.pipelines.driving.supervision.run_file import running_homes, runs
    from catchment.pipelines.home import default_home

    name = None if given is None else _name(given)
    folder = (root or default_home()).resolve()
    elsewhere = [one for one in running_homes() if one.run_file.exists()] if root is None else []
    found = list(dict.fromkeys([*runs(folder), *elsewhere]))
    return found if name is None else [_one_of(found, name, folder)]


def _name(given: str) -> str:
    """The name of a pipeline, or that in its file. Names have no dot and no slash; reading a file needs the extra."""
    if "." not in given and "/" not in given:
        return given
    need_extra(f"the pipeline's file {given}", "pipelines")
    from catchment.pipelines.declaration.loading import name_in

    return name_in(Path(given))


def _one_of(homes: list[Home], name: str, folder: Path) -> Home:
    """The pipeline with a name; the running one, if there are several."""
    from catchment.pipelines.driving.supervision.run_file import is_running

    named = [one for one in homes if one.pipeline == name]
    if not named:
        raise CommandError(
            f"pipeline {name} never ran in {folder}",
            "Check its name, or give the directory of its checkpoints with --home.",
        )
    running = [one for one in named if is_running(one)]
    if len(running) > 1:
        raise CommandError(
            f"a pipeline {name} runs in {' and in '.join(str(one.root) for one in running)}",
            "Choose one with --home.",
        )
    return (running or named)[0]


def find_topics(specification: PipelineSpecification, servers: str | None) -> frozenset[str]:
    """The existing topics; ends the command if no broker answers."""
    from catchment.pipelines.checks.preflight import BrokersAway, topics_there
    from catchment.pipelines.declaration.addresses import broker_settings, brokers

    try:
        return topics_there(brokers(specification, servers), broker_settings(specification), on_wait=print_note)
    except BrokersAway as away:
        raise CommandError(away.message, away.advice, exit_code=AWAY) from away


def require_topics(loaded: Loaded, there: frozenset[str]) -> None:
    """Raise `Mistakes` with every topic that the pipeline reads and that does not exist."""
    from catchment.pipelines.checks.preflight import missing_topics
    from catchment.pipelines.errors import Mistake, Mistakes

    missing = [
        Mistake(loaded.declared.location(path), what) for path, what in missing_topics(loaded.specification, there)
    ]
    if missing:
        raise Mistakes(missing)
