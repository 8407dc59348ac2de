"""`catchment broker`: one broker in the foreground, for scripts and supervisors.

Scripts wait for the first line, `listening on …`, and every module that is not imported makes it come earlier. So the
arguments are parsed here without typer, and the server is imported once they are valid. `--help` and invalid arguments are
left to `catchment.cli.broker.commands`, which has the same options and looks like every other command.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import NoReturn

from catchment.cli.broker.given_settings import parse_assignment
from catchment.cli.failure import CommandError, print_failure, report_bug


class _NotUnderstood(Exception):
    """The arguments ask for help, or are invalid."""


class _QuietParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _NotUnderstood(message)


def make_parser() -> argparse.ArgumentParser:
    parser = _QuietParser("catchment broker", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--set", action="append", type=parse_assignment, default=[])
    return parser


def main(arguments: list[str]) -> int | None:
    """Run until a signal; 0 after a clean stop, 1 or 2 if the broker could not start, None if the arguments need the full parser."""
    sys.excepthook = report_bug
    try:
        options = make_parser().parse_args(arguments)
    except _NotUnderstood:
        return None
    try:
        run_broker(options.config, dict(options.set))
    except CommandError as error:
        print_failure(error)
        return error.exit_code
    return 0


def run_broker(config: Path | None, given: dict[str, str]) -> None:
    """Run until a signal; CommandError if the broker cannot start."""
    from catchment.cli.broker.given_settings import load_settings
    from catchment.cli.broker.running import RunningBroker
    from catchment.ports.log_lines import configure_logging

    settings = load_settings(config, given)
    configure_logging(settings.text("catchment.log.format") or "text")

    async def serve() -> None:
        async with RunningBroker(settings) as broker:
            sys.stdout.write(f"listening on {broker.addresses}\n")
            sys.stdout.flush()
            await broker.stopped()

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
