"""`catchment pipeline test`: run the tests that are declared beside a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.known_pipelines import PipelineFile
from catchment.cli.options import AsJson
from catchment.cli.output import format_count, print_json, print_note

if TYPE_CHECKING:
    from catchment.pipelines.trials.trial_cases import Outcome


def run_tests(
    file: PipelineFile,
    only: Annotated[
        str | None, typer.Option("--only", "-k", metavar="TEXT", help="Run tests whose name has this in it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try a pipeline on the rows of its tests, with Spark but without a broker.

    Exits with 0 if all tests hold, 1 if one does not, 2 if the pipeline or a test is badly written or there is none.
    """
    from catchment.pipelines.execution.pipeline_session import silence
    from catchment.pipelines.trials.trial_cases import run_test, tests_of
    from catchment.pipelines.trials.trial_session import trial_session

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
            _show(outcomes[-1])
    failed = [one for one in outcomes if one.failure is not None]
    if as_json:
        print_json([{"test": one.name, "seconds": round(one.seconds, 3), "failure": one.failure} for one in outcomes])
    else:
        typer.echo(f"{format_count(len(outcomes) - len(failed), 'test')} held, {len(failed)} did not")
    raise typer.Exit(1 if failed else 0)


def _show(outcome: Outcome) -> None:
    mark = "✓" if outcome.failure is None else "✗"
    typer.echo(f"{mark} {outcome.name}  {outcome.seconds:.1f} s")
    for line in (outcome.failure or "").splitlines():
        typer.echo(f"    {line}")


test = run_tests
"""The function by the name of its verb, which the linter takes for a test of ours."""
