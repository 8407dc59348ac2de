"""A broker that runs in this process until a signal, and the errors with advice if it cannot start."""

import asyncio
import errno
import gc
import logging
import signal
import socket
from contextlib import AsyncExitStack
from types import TracebackType
from typing import NamedTuple, Self

from catchment.broker.server import BrokerServer
from catchment.cli.failure import MISTAKEN, CommandError
from catchment.ports.disk import UnusableDirectory
from catchment.ports.network import try_address
from catchment.settings.broker import BrokerSettings
from catchment.settings.listeners import parse_metrics_address
from catchment.settings.setting import InvalidSetting

_logger = logging.getLogger(__name__)

_OBJECTS_BEFORE_A_COLLECTION = 20_000
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_USUAL_PORT = 9092
_LAST_PORT = 65535
_UNUSABLE = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ENOENT,
        errno.EEXIST,
        errno.ENAMETOOLONG,
    }
)
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class Remedies(NamedTuple):
    """The options of the command that starts a broker, for its advice."""

    port: str
    """With `{port}` in place of a port."""
    directory: str


BY_SETTINGS = Remedies("--set listeners=PLAINTEXT://127.0.0.1:{port}", "--set log.dirs=DIRECTORY")


class RunningBroker:
    """Started on entry, stopped cleanly on exit. The first signal asks for the stop; a second one does not wait for it."""

    def __init__(self, settings: BrokerSettings, remedies: Remedies = BY_SETTINGS) -> None:
        self._settings = settings
        self._remedies = remedies
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
            self._try_addresses()
            await self.server.start()
            self._closing.push_async_callback(self.server.close)
            self._serve_metrics()
            # These objects live as long as the broker: the collector need not check them again.
            gc.freeze()
            # Requests that wait for a sync are thousands of objects at once, and reference counts free them all: looking for
            # cycles among them at every 700 was a tenth of the processor time.
            gc.set_threshold(_OBJECTS_BEFORE_A_COLLECTION)
        except CommandError:
            await self._closing.aclose()
            raise
        except (OSError, InvalidSetting, UnusableDirectory) as error:
            await self._closing.aclose()
            raise startup_failure(error, self._settings, self._remedies) from error
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

    def _try_addresses(self) -> None:
        """Fail before the data directory is created: the server itself binds its ports last, after it has loaded its logs."""
        wanted = [(listener.host, listener.port, self._remedies.port) for listener in self._settings.listeners]
        if address := self._settings.text("catchment.metrics.listener"):
            wanted.append((*parse_metrics_address(address), "--set catchment.metrics.listener=127.0.0.1:{port}"))
        for host, port, remedy in wanted:
            try:
                try_address(host, port)
            except OSError as error:
                if (failure := _address_failure(error, f"{host}:{port}", remedy)) is None:
                    raise
                raise failure from error

    def _serve_metrics(self) -> None:
        address = self._settings.text("catchment.metrics.listener")
        if not address:
            return
        from catchment.broker.metrics import readings
        from catchment.ports.telemetry import Exporter

        metrics = Exporter(lambda: readings(self.server.services)).serve(*parse_metrics_address(address))
        self._closing.callback(metrics.close)
        _logger.info("metrics at http://%s:%d/metrics", metrics.host, metrics.port)


def startup_failure(
    error: OSError | InvalidSetting | UnusableDirectory, settings: BrokerSettings, remedies: Remedies = BY_SETTINGS
) -> CommandError:
    """The reason why the broker could not start, with advice."""
    if isinstance(error, InvalidSetting):
        advice = "The settings are listed in docs/reference/settings.md."
        return CommandError(str(error), advice, exit_code=MISTAKEN)
    if isinstance(error, UnusableDirectory):
        return CommandError(str(error))
    directories = ", ".join(str(path) for path in settings.log_dirs)
    if isinstance(error, BlockingIOError):
        return CommandError(
            f"the data directory {error.filename} is in use by another process",
            f"Stop the other broker, or give this one a directory of its own: {remedies.directory}.",
        )
    if error.errno in _NO_SPACE:
        return CommandError(f"the disk of {directories} is full", "Free some space and start again; no record is lost.")
    if error.filename is not None and error.errno in _UNUSABLE:
        return CommandError(
            f"cannot write to {error.filename}: {(error.strerror or '').lower()}",
            f"Make the data directory ({directories}) writable, or choose another: {remedies.directory}.",
        )
    addresses = ", ".join(f"{listener.host}:{listener.port}" for listener in settings.listeners)
    return _address_failure(error, addresses, remedies.port) or CommandError(f"the broker could not start: {error}")


def _address_failure(error: OSError, address: str, remedy: str) -> CommandError | None:
    """Why an address cannot be listened on, if that is what the error says; `remedy` is the option for another port."""
    if error.errno == errno.EADDRINUSE:
        port = address.rpartition(":")[2]
        another = remedy.format(port=int(port) + 1 if port.isdecimal() and int(port) < _LAST_PORT else _USUAL_PORT)
        return CommandError(
            f"cannot listen on {address}: the port is in use",
            f"Stop the process that holds it, or choose another: {another}.",
        )
    if error.errno in (errno.EACCES, errno.EPERM) and error.filename is None:
        return CommandError(
            f"not allowed to listen on {address}", "Ports below 1024 need privileges: choose a higher one."
        )
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return CommandError(
            f"cannot listen on {address}: this machine has no such address",
            "Correct the host in `listeners`; 0.0.0.0 stands for every interface.",
        )
    return None
