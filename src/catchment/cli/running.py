"""A broker that runs in this process until a signal, and what to tell people when it cannot start."""

import asyncio
import errno
import gc
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from catchment.broker.server import BrokerServer
from catchment.cli.failure import CommandError
from catchment.ports.broker_settings import BrokerSettings
from catchment.ports.disk import UnusableDirectory
from catchment.ports.settings import InvalidSetting

_logger = logging.getLogger(__name__)

_OBJECTS_BEFORE_A_COLLECTION = 20_000
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class RunningBroker:
    """Started on entry, stopped cleanly on exit. The first signal asks for the stop; a second one does not wait for it."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._stop = asyncio.Event()
        self._closing = AsyncExitStack()
        self.server = BrokerServer(settings)

    @property
    def addresses(self) -> str:
        """Where clients connect, as `listeners` writes it."""
        return ",".join(f"{name}://{host}:{port}" for name, (host, port) in self.server.endpoints.items())

    @property
    def bootstrap_servers(self) -> str:
        """The address to give to a client on this machine."""
        host, port = next(iter(self.server.endpoints.values()))
        return f"{'127.0.0.1' if host in ('', '0.0.0.0', '::') else host}:{port}"

    async def stopped(self) -> None:
        """Wait until a signal asks for the end."""
        await self._stop.wait()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._ask_to_stop, number)
        try:
            await self.server.start()
            self._closing.push_async_callback(self.server.close)
            self._serve_metrics()
            # What is alive now lives as long as the broker: the collector need not look at it again.
            gc.freeze()
            # Requests that wait for a sync are thousands of objects at once, and reference counts free them all: looking for
            # cycles among them at every 700 was a tenth of the processor time.
            gc.set_threshold(_OBJECTS_BEFORE_A_COLLECTION)
        except (OSError, InvalidSetting, UnusableDirectory) as error:
            await self._closing.aclose()
            raise startup_failure(error, self._settings) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._closing.aclose()
        _logger.info("stopped")

    def _ask_to_stop(self, number: signal.Signals) -> None:
        _logger.info("stopping on %s", number.name)
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        self._stop.set()

    def _serve_metrics(self) -> None:
        address = self._settings.text("catchment.metrics.listener")
        if not address:
            return
        from catchment.broker.metrics import readings
        from catchment.ports.telemetry import Exporter

        metrics = Exporter(lambda: readings(self.server.services)).serve(address)
        self._closing.callback(metrics.close)
        _logger.info("metrics at http://%s:%d/metrics", metrics.host, metrics.port)


def startup_failure(error: OSError | InvalidSetting | UnusableDirectory, settings: BrokerSettings) -> CommandError:
    """Why the broker could not start, for the person who tried to start it."""
    if isinstance(error, InvalidSetting):
        return CommandError(str(error), "The settings are listed in docs/reference/settings.md.")
    if isinstance(error, UnusableDirectory):
        return CommandError(str(error))
    if isinstance(error, BlockingIOError):
        return CommandError(
            f"the data directory {error.filename} is in use by another process",
            "Stop the other broker, or give this one a directory of its own: log.dirs=DIRECTORY.",
        )
    describe = _CAUSES.get(error.errno or 0)
    if isinstance(error, socket.gaierror):
        describe = _unknown_host
    if describe is not None:
        return describe(error, settings)
    return CommandError(f"the broker could not start: {error}")


def _listeners(settings: BrokerSettings) -> str:
    return ", ".join(f"{listener.host}:{listener.port}" for listener in settings.listeners)


def _busy_port(error: OSError, settings: BrokerSettings) -> CommandError:
    return CommandError(
        f"cannot listen on {_listeners(settings)}: the port is in use",
        "Stop the process that holds it, or choose another: listeners=PLAINTEXT://127.0.0.1:9093.",
    )


def _refused_port(error: OSError, settings: BrokerSettings) -> CommandError:
    directories = ", ".join(str(path) for path in settings.log_dirs)
    if error.filename is None:
        return CommandError(
            f"not allowed to listen on {_listeners(settings)}", "Ports below 1024 need privileges: choose a higher one."
        )
    return CommandError(
        f"cannot write to {error.filename}: {(error.strerror or '').lower()}",
        f"Make the data directory ({directories}) writable, or choose another: log.dirs=DIRECTORY.",
    )


def _unknown_host(error: OSError, settings: BrokerSettings) -> CommandError:
    return CommandError(
        f"cannot listen on {_listeners(settings)}: this machine has no such address",
        "Correct the host in `listeners`; 0.0.0.0 stands for every interface.",
    )


def _full_disk(error: OSError, settings: BrokerSettings) -> CommandError:
    directories = ", ".join(str(path) for path in settings.log_dirs)
    return CommandError(f"the disk of {directories} is full", "Free some space and start again; no record is lost.")


_CAUSES: dict[int, Callable[[OSError, BrokerSettings], CommandError]] = {
    errno.EADDRINUSE: _busy_port,
    errno.EADDRNOTAVAIL: _unknown_host,
    errno.EACCES: _refused_port,
    errno.EPERM: _refused_port,
    errno.EROFS: _refused_port,
    errno.ENOTDIR: _refused_port,
    errno.ENOENT: _refused_port,
    errno.EEXIST: _refused_port,
    errno.ENOSPC: _full_disk,
    errno.EDQUOT: _full_disk,
}
