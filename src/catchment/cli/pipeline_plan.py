"""`catchment pipeline plan`: what a run of a pipeline would do, and whether it may go on with the state that it has."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import typer

from catchment.cli.failure import MISTAKEN, REFUSED
from catchment.cli.known_pipelines import HomeFolder, PipelineFile, Servers
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note
from catchment.cli.preflight import find_topics

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from catchment.pipelines.graph import Graph
    from catchment.pipelines.home import Home
    from catchment.pipelines.owner_checks import OwnerChecks
    from catchment.pipelines.planning import Plan
    from catchment.pipelines.planning.needs import Needs
    from catchment.pipelines.specification import PipelineSpecification


def plan(file: PipelineFile, servers: Servers = None, home: HomeFolder = None, as_json: AsJson = False) -> None:
    """Compare a pipeline with the state of its last run, and show what a run would reuse, start from scratch or refuse.

    Nothing is changed. Exits with 0 if it may run, 2 if it is badly written or something is missing that it needs, 3 if it
    may not go on with its state, 5 if the brokers do not answer.
    """
    from catchment.pipelines.graph import Graph
    from catchment.pipelines.home import Home, default_home
    from catchment.pipelines.loading import load
    from catchment.pipelines.owner_checks import check_owners
    from catchment.pipelines.planning.needs import needs
    from catchment.pipelines.secrets import missing_variables

    loaded = load(file.resolve(), is_to_plan=True)
    specification = loaded.specification
    if not any(missing_variables([specification.servers, specification.kafka])):
        # Topics and variables that are missing are reported with the plan; brokers that are away end the command here.
        find_topics(specification, servers)
    place = Home((home or default_home()).resolve(), specification.pipeline)
    owned = check_owners(Graph(specification), loaded.folder, place, servers)
    if owned.objections:
        _refuse(specification, owned, as_json)
    with loaded.located():
        decided = _decide(Graph(specification), loaded.folder, place, owned.begins)
    graph = Graph(loaded.specification, decided.versions)
    needed = needs(graph, servers)
    needed = replace(needed, notes=(*owned.notes, *needed.notes))
    if as_json:
        print_json(_as_json(graph, decided, needed))
    else:
        _show(graph, decided, needed)
    raise typer.Exit(REFUSED if decided.refused else MISTAKEN if needed.missing else 0)


def _refuse(specification: PipelineSpecification, owned: OwnerChecks, as_json: bool) -> NoReturn:
    """Say who owns what, without Spark: nothing else matters before that is settled."""
    from catchment.pipelines.ownership.owner import remedy

    if as_json:
        queries = {
            name: {"action": "refuse", "version": None, "reasons": [one.reason], "remedy": one.remedy}
            for name, one in owned.objections.items()
        }
        print_json(
            {
                "pipeline": specification.pipeline,
                "version": specification.version,
                "queries": queries,
                "topics_to_make": [],
                "missing": [],
                "unknown": None,
                "notes": list(owned.notes),
            }
        )
    else:
        for name, one in owned.objections.items():
            typer.echo(f"{name}: {one.reason}")
        typer.echo(remedy(owned.objections.values()))
        for note in owned.notes:
            print_note(f"note: {note}")
    raise typer.Exit(REFUSED)


def _decide(graph: Graph, folder: Path, home: Home, begins: Mapping[str, int]) -> Plan:
    """Compare the pipeline with what its home has. Spark is asked for the signatures of a pipeline that was not planned before."""
    from catchment.pipelines.execution.pipeline_session import carry_modules, plan_session, silence
    from catchment.pipelines.opening import authors_mistakes
    from catchment.pipelines.planning import compare, kept_with_checkpoints, signatures
    from catchment.pipelines.planning.remembered import key_of, recall, remember

    carry_modules(folder)
    key = key_of(graph, folder)
    if (current := recall(key)) is None:
        spark = plan_session(graph.specification)
        try:
            silence(spark)
            with authors_mistakes():
                current = signatures(spark, graph, home, folder)
        finally:
            spark.stop()
        remember(key, current)
    return compare(kept_with_checkpoints(home), current, begins)


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
