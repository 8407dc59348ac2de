"""`catchment broker`: one broker in the foreground, for scripts and supervisors.

It has a parser of its own, and the server is imported once the arguments are known to be right: whoever starts a broker
waits for its first line, `listening on …`, and every module that is not loaded brings that line forward.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from catchment.cli.assignments import parse_assignment
from catchment.cli.failure import CommandError, print_failure, report_bug

DESCRIPTION = "Run one broker in the foreground. SIGTERM and SIGINT stop it cleanly."


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("catchment broker", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="Settings, one key=value a line, as in Kafka's server.properties."
    )
    parser.add_argument(
        "--set",
        action="append",
        type=_assignment,
        default=[],
        metavar="KEY=VALUE",
        help="A setting that overrides the file. May be repeated.",
    )
    return parser


def _assignment(text: str) -> tuple[str, str]:
    try:
        return parse_assignment(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main(arguments: list[str]) -> int:
    """Run until a signal; 0 after a clean stop, 1 if the broker could not start or failed."""
    sys.excepthook = report_bug
    options = make_parser().parse_args(arguments)
    try:
        _run(options.config, dict(options.set))
    except CommandError as error:
        print_failure(error)
        return 1
    return 0


def _run(config: Path | None, given: dict[str, str]) -> None:
    from catchment.cli.running import RunningBroker
    from catchment.cli.settings_file import load_settings
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
