"""`catchment pipeline status`: how the pipelines of this machine fare."""

from typing import Annotated, Any

import typer

from catchment.cli.known_pipelines import AnyHome, PipelineOrFile, pipeline_homes
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note, print_table


def status(
    name: PipelineOrFile = None,
    home: AnyHome = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Only those that run on this master.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the status of running pipelines, and how earlier runs ended."""
    from catchment.pipelines.driving.drawing import accounts, alerts
    from catchment.pipelines.driving.reports import report

    found = [report(one) | {"home": str(one.root)} for one in pipeline_homes(home, name)]
    found = [one for one in found if master in (None, one.get("master"))]
    if as_json:
        print_json(found[0] if name and found else found)
        return
    columns = (
        "pipeline",
        "version",
        "state",
        "pid:",
        "query",
        "rows/s:",
        "lag:",
        "watermark",
        "batch ms:",
        "restarts:",
    )
    print_table(columns, [row for one in found for row in _rows(one)])
    for one in found:
        for said in (*accounts(one), *alerts(one)):
            print_note(f"{one['pipeline']}: {said}")
        faults = [f"! {fault}" for fault in one.get("faults", ())]
        for said in [*one.get("notes", ()), *faults, *([one["error"]] if one.get("error") else [])]:
            print_note(f"{one['pipeline']}: {said}")


def _rows(run: dict[str, Any]) -> list[tuple[object, ...]]:
    """A line for each query, and one for a pipeline that has none to show."""
    head = (run["pipeline"], _shown(run.get("version")), run["state"], _shown(run.get("pid")))
    queries = run.get("queries") or [{}]
    return [
        (
            *head,
            *(_shown(one.get(field)) for field in ("name", "rows_per_s", "lag", "watermark", "batch_ms", "restarts")),
        )
        for one in queries
    ]


def _shown(value: object) -> object:
    return "–" if value is None else value
