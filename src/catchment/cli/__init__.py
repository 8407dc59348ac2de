"""The command `catchment`.

`catchment broker` is started by scripts and supervisors that wait for it, so it is dispatched before anything that only the
other commands need (typer, rich, the client library) is imported.
"""

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["broker"]:
        from catchment.cli.broker.foreground import main as run_broker

        status = run_broker(arguments[1:])
        if status is not None:
            sys.exit(status)
    from catchment.cli.app import run

    run()
