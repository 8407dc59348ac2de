"""`catchment broker` as the other commands see it: its help, and its errors.

`catchment.cli.broker` runs it with the same options where its own, faster parser understands them.
"""

import typer

from catchment.cli.broker import run_broker
from catchment.cli.options import ServerSettings, ServerSettingsFile, parse_assignments

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("broker")
def broker(config: ServerSettingsFile = None, assignments: ServerSettings = None) -> None:
    """Run one broker in the foreground.

    It prints `listening on …` once clients can connect. SIGTERM and SIGINT stop it cleanly.
    """
    run_broker(config, parse_assignments(assignments, "--set"))
