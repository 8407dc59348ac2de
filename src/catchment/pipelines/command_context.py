"""A pipeline's file opened for a command that works beside its run: the graph, and Spark if it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catchment.client.errors import ClientError, SettingsError
from catchment.pipelines.checks.owners import require_owner
from catchment.pipelines.declaration.loading import Loaded, load
from catchment.pipelines.execution.run import run_context
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.session import carry_modules, pipeline_session, silence
from catchment.pipelines.execution.spark_errors import cause_of
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home, default_home
from catchment.pipelines.planning import decide


def read_graph(file: Path) -> tuple[Graph, Path]:
    """The graph of a file, and the folder that its paths are relative to; raises `Mistakes`."""
    loaded = _loaded(file)
    return Graph(loaded.specification), loaded.folder


def _loaded(file: Path) -> Loaded:
    loaded = load(file.resolve(), is_to_run=True)
    carry_modules(loaded.folder)
    return loaded


@contextmanager
def authors_mistakes() -> Iterator[None]:
    """Raise whatever a stage's code raises as SettingsError: the author has to correct it."""
    try:
        yield
    except ClientError:
        raise
    except Exception as error:
        raise SettingsError(str(cause_of(error))) from error


@contextmanager
def opened(file: Path, root: Path | None, servers: str | None, master: str) -> Iterator[RunContext]:
    """The context of its queries, with the versions that a run would have; raises `Refused` where a run would."""
    loaded = _loaded(file)
    graph, folder = Graph(loaded.specification), loaded.folder
    home = Home((root or default_home()).resolve(), graph.specification.pipeline)
    begins = require_owner(graph, folder, home, servers).begins
    if not home.plan_file.exists():
        raise ClientError(f"pipeline {home.pipeline} never ran in {home.root}", "Run it first, or name its --home.")
    with pipeline_session(graph.specification, master) as spark:
        silence(spark)
        with loaded.located(), authors_mistakes():
            plan = decide(spark, graph, home, folder, begins)
        graph = Graph(graph.specification, plan.versions)
        yield run_context(
            spark, graph, home=home, folder=folder, servers=servers, versions=plan.versions, rows=plan.rows
        )
