"""`catchment lake`: describe, query, compact and vacuum the for-ever store."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.cli.failure import CommandError
from catchment.cli.options import AsJson
from catchment.cli.output import format_bytes, format_count, print_json, print_note, print_table
from catchment.cli.wire import client_errors_as_failures

if TYPE_CHECKING:
    from catchment.pipelines.lakes.delta import DeltaLake
    from catchment.pipelines.lakes.parquet import ParquetLake

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

LakePath = Annotated[str, typer.Argument(metavar="PATH", help="The folder of the lake.")]


@app.command("describe")
def describe(path: LakePath, as_json: AsJson = False) -> None:
    """Describe a lake: format, rows, files, columns."""
    with client_errors_as_failures():
        facts = dict(_find(path).describe())
    if as_json:
        print_json(facts)
        return
    shown = {
        **facts,
        "rows": f"{facts['rows']:,}",
        "files": f"{facts['files']:,}",
        "bytes": format_bytes(facts["bytes"]),
    }
    for name in ("columns", "batches"):
        shown[name] = ", ".join(f"{key} {value}" for key, value in facts.get(name, {}).items())
    shown["partition_by"] = ", ".join(facts["partition_by"])
    print_table(["", ""], [[name.replace("_", " "), value] for name, value in shown.items() if value != ""])


@app.command("optimize")
def optimize(path: LakePath, as_json: AsJson = False) -> None:
    """Rewrite small files as few large ones. Writers and readers are not blocked."""
    with client_errors_as_failures():
        compacted, written = _delta(path).optimize()
    if as_json:
        print_json({"files_compacted": compacted, "files_written": written})
    else:
        print_note(
            f"{format_count(compacted, 'file')} became {written:,}; `catchment lake vacuum` removes the old ones"
        )


@app.command("vacuum")
def vacuum(
    path: LakePath,
    older_than_h: Annotated[
        int | None,
        typer.Option(
            "--older-than",
            min=1,
            metavar="HOURS",
            help="Remove files that have not been part of the table for this long.",
            show_default="a week",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files, remove none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove files of old versions and of failed batches. Versions that need them can no longer be read."""
    with client_errors_as_failures():
        files = _delta(path).vacuum(older_than_h, dry_run=dry_run)
    if as_json:
        print_json({"removed": [] if dry_run else files, "would_remove": files if dry_run else []})
        return
    if dry_run:
        for file in files:
            typer.echo(file)
    print_note(f"{'would remove' if dry_run else 'removed'} {format_count(len(files), 'file')}")


@app.command("sql")
def sql(
    path: LakePath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="SQL for DuckDB; the lake is the table `lake`.")],
    version: Annotated[
        int | None,
        typer.Option(
            "--version", metavar="N", min=0, help="As of this version of a Delta table.", show_default="newest"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Query a lake with DuckDB."""
    with client_errors_as_failures():
        import duckdb

        rows = _find(path).dataset(version)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("lake", rows)
            try:
                result = connection.execute(query)
                names = [column[0] for column in result.description or ()]
                found = result.fetchall()
            except duckdb.Error as error:
                raise CommandError(f"DuckDB cannot run the query: {error}", "The lake is the table `lake`.") from error
    if as_json:
        print_json([dict(zip(names, map(_in_json, row), strict=True)) for row in found])
    else:
        print_table(names, [["" if cell is None else cell for cell in row] for row in found])


def _find(path: str) -> DeltaLake | ParquetLake:
    from catchment.pipelines.lakes.lake_opening import find_lake

    return find_lake(path)


def _delta(path: str) -> DeltaLake:
    from catchment.pipelines.lakes.delta import DeltaLake

    if isinstance(lake := _find(path), DeltaLake):
        return lake
    raise CommandError(f"the lake {path} is plain Parquet, which is not compacted", "Only Delta tables are.")


def _in_json(value: Any) -> Any:
    """A value of DuckDB for JSON. Decimals become text, so that no digit is lost, and so do values that JSON does not have."""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_in_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(_in_json(key)): _in_json(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
