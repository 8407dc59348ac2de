"""`catchment pipeline plan`, `graph` and `test`: look at a pipeline without running it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from catchment.cli.failure import MISTAKEN, REFUSED
from catchment.cli.options import AsJson
from catchment.cli.output import format_count, print_json, print_note
from catchment.cli.pipeline.files import HomeFolder, PipelineFile, Servers, find_topics

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from catchment.pipelines.checks.owners import OwnerChecks
    from catchment.pipelines.declaration.specification import PipelineSpecification
    from catchment.pipelines.graph import Graph
    from catchment.pipelines.home import Home
    from catchment.pipelines.planning import Plan
    from catchment.pipelines.planning.needs import Needs
    from catchment.pipelines.trials.cases import Outcome


def plan(file: PipelineFile, servers: Servers = None, home: HomeFolder = None, as_json: AsJson = False) -> None:
    """Compare a pipeline with the state of its last run, and show what a run would reuse, start from scratch or refuse.

    Nothing is changed.

    Exit status: 0 the pipeline may run, 2 invalid pipeline or missing topic, 3 incompatible state or schema, 5 brokers unreachable.
    """
    from catchment.pipelines.checks.owners import check_owners
    from catchment.pipelines.declaration.addresses import missing_variables
    from catchment.pipelines.declaration.loading import load
    from catchment.pipelines.graph import Graph
    from catchment.pipelines.home import Home, default_home
    from catchment.pipelines.planning.needs import needs

    loaded = load(file.resolve(), is_to_plan=True)
    specification = loaded.specification
    if not any(missing_variables([specification.servers, specification.kafka])):
        # Missing topics and variables are reported with the plan; unreachable brokers end the command here.
        find_topics(specification, servers)
    pipeline_home = Home((home or default_home()).resolve(), specification.pipeline)
    owned = check_owners(Graph(specification), loaded.folder, pipeline_home, servers)
    if owned.objections:
        _refuse(specification, owned, as_json)
    with loaded.located():
        decided = _decide(Graph(specification), loaded.folder, pipeline_home, owned.begins)
    graph = Graph(loaded.specification, decided.versions)
    needed = needs(graph, servers)
    needed = replace(needed, notes=(*owned.notes, *needed.notes))
    if as_json:
        print_json(_as_json(graph, decided, needed))
    else:
        _show(graph, decided, needed)
    raise typer.Exit(REFUSED if decided.refused else MISTAKEN if needed.missing else 0)


def _refuse(specification: PipelineSpecification, owned: OwnerChecks, as_json: bool) -> NoReturn:
    """Report who owns what, without starting Spark: a conflict must be resolved before anything else."""
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
    from catchment.pipelines.command_context import authors_mistakes
    from catchment.pipelines.execution.session import carry_modules, plan_session, silence
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
        print_note(f"note: {needed.unknown}; existing topics were not checked")


def _remark(action: str, version: int) -> str:
    return f"{action}, v{version}" if version > 1 else action


def graph(
    file: PipelineFile,
    svg_file: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the picture as SVG to a file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a pipeline: its topics, stages, tables, stores and alerts, and the flow between them.

    Exit status: 0 success, 2 invalid pipeline.
    """
    from catchment.pipelines.declaration.loading import load
    from catchment.pipelines.drawing.picture import picture
    from catchment.pipelines.drawing.svg import svg
    from catchment.pipelines.drawing.terminal import drawn
    from catchment.pipelines.graph import Graph

    specification = load(file).specification
    shown = picture(Graph(specification))
    if svg_file is not None:
        svg_file.write_text(svg(shown, f"pipeline {specification.pipeline}"), encoding="utf-8")
        print_note(f"drawn to {svg_file}")
    elif not as_json:
        typer.echo("\n".join(drawn(shown)))
    if as_json:
        nodes = [
            {"name": one.name, "kind": one.kind, "title": one.title, "query": one.query} for one in shown.nodes.values()
        ]
        print_json({"pipeline": specification.pipeline, "nodes": nodes, "edges": [list(one) for one in shown.edges]})


def run_tests(
    file: PipelineFile,
    only: Annotated[
        str | None, typer.Option("--only", "-k", metavar="TEXT", help="Run only tests whose name contains this.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the tests of a pipeline, with Spark but without a broker.

    Exit status: 0 all tests passed, 1 a test failed, 2 invalid pipeline or test, or no tests.
    """
    from catchment.pipelines.execution.session import silence
    from catchment.pipelines.trials.cases import run_test, tests_of
    from catchment.pipelines.trials.run import trial_session

    tests = [one for one in tests_of(file) if only is None or only in one.name]
    if not tests:
        print_note(f"{file} has no tests; write them in its section `tests`, or as functions test_… in Python")
        raise typer.Exit(2)
    print_note("Spark is starting")
    silence(trial_session())
    outcomes = []
    for one in tests:
        outcomes.append(run_test(one))
        if not as_json:
            _show_outcome(outcomes[-1])
    failed = [one for one in outcomes if one.failure is not None]
    if as_json:
        print_json([{"test": one.name, "seconds": round(one.seconds, 3), "failure": one.failure} for one in outcomes])
    else:
        typer.echo(f"{format_count(len(outcomes) - len(failed), 'test')} passed, {len(failed)} failed")
    raise typer.Exit(1 if failed else 0)


def _show_outcome(outcome: Outcome) -> None:
    mark = "✓" if outcome.failure is None else "✗"
    typer.echo(f"{mark} {outcome.name}  {outcome.seconds:.1f} s")
    for line in (outcome.failure or "").splitlines():
        typer.echo(f"    {line}")
