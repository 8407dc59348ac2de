"""`catchment pipeline plan`: what a run of a pipeline would do, and whether it may go on with the state that it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from catchment.cli.failure import MISTAKEN, REFUSED
from catchment.cli.known_pipelines import HomeFolder, PipelineFile, Servers
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note

if TYPE_CHECKING:
    from catchment.pipelines.graph import Graph
    from catchment.pipelines.planning import Plan
    from catchment.pipelines.planning.needs import Needs


def plan(file: PipelineFile, servers: Servers = None, home: HomeFolder = None, as_json: AsJson = False) -> None:
    """Compare a pipeline with the state of its last run, and show what a run would reuse, begin anew or refuse.

    Nothing is changed. Exits with 0 if it may run, 2 if it is badly written or something is missing that it needs, 3 if it
    may not go on with its state.
    """
    from catchment.pipelines.graph import Graph
    from catchment.pipelines.loading import load
    from catchment.pipelines.planning.needs import needs

    loaded = load(file.resolve())
    decided = _decide(Graph(loaded.specification), loaded.folder, home)
    graph = Graph(loaded.specification, decided.versions)
    needed = needs(graph, servers)
    if as_json:
        print_json(_as_json(graph, decided, needed))
    else:
        _show(graph, decided, needed)
    raise typer.Exit(REFUSED if decided.refused else MISTAKEN if needed.missing else 0)


def _decide(graph: Graph, folder: Path, home: Path | None) -> Plan:
    from catchment.pipelines.execution.pipeline_session import carry_modules, pipeline_session
    from catchment.pipelines.home import Home, default_home
    from catchment.pipelines.opening import authors_mistakes
    from catchment.pipelines.planning import examine

    carry_modules(folder)
    root = (home or default_home()).resolve()
    spark = pipeline_session(graph.specification, "local[1]", config={"spark.ui.enabled": "false"})
    try:
        with authors_mistakes():
            return examine(spark, graph, Home(root, graph.specification.pipeline), folder)
    finally:
        spark.stop()


def _as_json(graph: Graph, decided: Plan, needed: Needs) -> dict[str, object]:
    queries = {
        name: {"action": one.action, "version": one.version, "reasons": list(one.reasons), "remedy": one.remedy}
        for name, one in decided.queries.items()
    }
    return {
        "pipeline": graph.specification.pipeline,
        "version": graph.specification.version,
        "queries": queries,
        "rows": {name: _rows(graph, decided, name) for name in decided.rows},
        "topics_to_make": list(needed.made),
        "missing": list(needed.missing),
        "unknown": needed.unknown,
        "notes": list(needed.notes),
    }


def _rows(graph: Graph, decided: Plan, query: str) -> dict[str, object]:
    """How a stage's topic holds rows, with the Avro schemas of new ones first."""
    boundary, written = graph.boundary(query), decided.rows[query]
    now = decided.current.queries[query].row_schema
    schemas = [json.loads(one) for one in dict.fromkeys((now, *written.schemas)) if one is not None]
    return {"topic": boundary.topic if boundary else None, "format": written.format, "schemas": schemas}


def _show(graph: Graph, decided: Plan, needed: Needs) -> None:
    from catchment.pipelines.drawing.picture import picture
    from catchment.pipelines.drawing.terminal import drawn

    remarks = {name: _remark(one.action, one.version) for name, one in decided.queries.items()}
    typer.echo("\n".join(drawn(picture(graph), remarks)))
    for name, one in decided.queries.items():
        for reason in one.reasons:
            typer.echo(f"{name}: {reason}")
        if one.remedy:
            typer.echo(f"{name}: {one.remedy}")
    if needed.made:
        what = "topics that it writes to" if needed.unknown else "topics to make"
        typer.echo(f"{what}: {', '.join(needed.made)}")
    for note in needed.notes:
        print_note(f"note: {note}")
    for missing in needed.missing:
        print_note(f"missing: {missing}")
    if needed.unknown:
        print_note(f"note: {needed.unknown}; which topics are there was not looked at")


def _remark(action: str, version: int) -> str:
    return f"{action}, v{version}" if version > 1 else action
