"""`catchment up` and `catchment broker`: a broker with a short live status for a terminal, and one in the foreground for scripts.

`catchment.cli.broker.foreground` runs `catchment broker` where its own, faster parser understands the options.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.broker.foreground import run_broker
from catchment.cli.broker.given_settings import load_settings
from catchment.cli.broker.traffic import Rates, Sample, status_line, status_panel
from catchment.cli.options import ServerSettings, ServerSettingsFile, parse_assignments
from catchment.ports.log_lines import configure_logging
from catchment.settings.broker import BrokerSettings

if TYPE_CHECKING:
    from catchment.cli.broker.running import Remedies, RunningBroker


up_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_logger = logging.getLogger(__name__)

_REFRESH_S = 1.0
_LOG_S = 10.0


@up_app.command("up")
def up(
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            metavar="PORT",
            min=0,
            max=65535,
            help="Listen here on 127.0.0.1; 0 takes any free port.",
            show_default="9092",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIRECTORY", help="Keep the data here.", show_default="./catchment-data"),
    ] = None,
    config: ServerSettingsFile = None,
    assignments: ServerSettings = None,
) -> None:
    """Start a broker and show its traffic; Ctrl-C stops it cleanly."""
    given = parse_assignments(assignments, "--set")
    if port is not None:
        _set(given, "listeners", f"PLAINTEXT://127.0.0.1:{port}", "--port")
    if data is not None:
        _set(given, "log.dirs", str(data), "--data")
    settings = load_settings(config, given)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_watch(settings) if sys.stdout.isatty() else _log(settings))


def _set(given: dict[str, str], name: str, value: str, option: str) -> None:
    if name in given:
        raise typer.BadParameter(f"give {option} or --set {name}=…, not both", param_hint=option)
    given[name] = value


async def _watch(settings: BrokerSettings) -> None:
    """Redraw the status in place. Log lines appear above it."""
    from rich.console import Console
    from rich.live import Live

    from catchment.cli.broker.running import RunningBroker

    # The panel is drawn from the loop's own timer: a thread of rich's would read the counters while they change.
    with Live(console=Console(), auto_refresh=False) as live:
        configure_logging(level=logging.WARNING)
        async with RunningBroker(settings, _remedies()) as broker:
            directory = str(settings.log_dirs[0])

            def draw(sample: Sample, rates: Rates) -> None:
                live.update(status_panel(broker.bootstrap_servers, directory, sample, rates), refresh=True)

            await _sample_until_stopped(broker, _REFRESH_S, draw)


async def _log(settings: BrokerSettings) -> None:
    """Without a terminal, one line at the start and one for each period with traffic."""
    from catchment.cli.broker.running import RunningBroker

    configure_logging(settings.text("catchment.log.format") or "text")
    async with RunningBroker(settings, _remedies()) as broker:
        typer.echo(f"listening on {broker.addresses}")
        sys.stdout.flush()

        def log(sample: Sample, rates: Rates) -> None:
            if not rates.is_idle:
                _logger.info(status_line(sample, rates))

        await _sample_until_stopped(broker, _LOG_S, log)


def _remedies() -> "Remedies":
    from catchment.cli.broker.running import Remedies

    return Remedies("--port {port}", "--data DIRECTORY")


async def _sample_until_stopped(
    broker: "RunningBroker", period_s: float, show: Callable[[Sample, Rates], None]
) -> None:
    services = broker.server.services
    earlier = Sample.take(services)
    show(earlier, Rates.between(earlier, earlier))
    stopped = asyncio.ensure_future(broker.stopped())
    while not stopped.done():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(stopped), period_s)
        later = Sample.take(services)
        show(later, Rates.between(earlier, later))
        earlier = later


broker_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@broker_app.command("broker")
def broker(config: ServerSettingsFile = None, assignments: ServerSettings = None) -> None:
    """Run one broker in the foreground.

    It prints `listening on …` once clients can connect. SIGTERM and SIGINT stop it cleanly.
    """
    run_broker(config, parse_assignments(assignments, "--set"))
