"""`catchment doctor`: will a broker run well on this machine?"""

import sys

import typer

from catchment.cli.doctor_checks import Finding, Verdict, all_findings
from catchment.cli.failure import CommandError
from catchment.cli.options import AsJson, ServerSettings, ServerSettingsFile, parse_assignments
from catchment.cli.output import format_count, print_json
from catchment.cli.settings_file import load_settings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_MARKS = {Verdict.OK: "✓", Verdict.NOTE: "·", Verdict.WARNING: "!", Verdict.FAILURE: "✗"}
_COLOURS = {Verdict.OK: "green", Verdict.NOTE: "blue", Verdict.WARNING: "yellow", Verdict.FAILURE: "red"}


@app.command("doctor")
def doctor(
    config: ServerSettingsFile = None,
    assignments: ServerSettings = None,
    as_json: AsJson = False,
) -> None:
    """Check ports, disk, limits and versions.

    The exit status is 1 if a broker could not run here.
    """
    settings = load_settings(config, parse_assignments(assignments, "--set"))
    findings = []
    for finding in all_findings(settings):
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    failures = [finding for finding in findings if finding.verdict is Verdict.FAILURE]
    if failures:
        raise CommandError(
            f"{format_count(len(failures), 'check')} failed: {', '.join(finding.check for finding in failures)}",
            failures[0].advice or None,
        )


def _print(finding: Finding) -> None:
    mark = _MARKS[finding.verdict]
    if sys.stdout.isatty():
        mark = typer.style(mark, fg=_COLOURS[finding.verdict])
    typer.echo(f"{mark} {finding.check}: {finding.detail}{'. ' + finding.advice if finding.advice else ''}")
