"""A real broker on a thread of this process: for tests, notebooks and scripts that need a Kafka for a moment.

    with catchment.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

It is the same broker that `catchment broker` runs, on an event loop of its own. Its data is in memory, or in a directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from types import TracebackType
from typing import Any, Final, TypeVar

from catchment.broker.server import BrokerServer
from catchment.cluster.new_topic import NewTopic
from catchment.ports.clock import SystemClock
from catchment.ports.disk import DirectoryLock
from catchment.ports.memory_disk import MemoryDisk
from catchment.ports.real_disk import RealDisk
from catchment.settings.broker import BrokerSettings, require_known
from catchment.testing.faults import Faults
from catchment.testing.faulty_network import FaultyNetwork
from catchment.testing.loop_thread import LoopThread

_HOST: Final = "127.0.0.1"
_MEMORY_DIRECTORY: Final = "/catchment"
_START_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 30.0

Result = TypeVar("Result")


class KillableDisk(RealDisk):
    """A real disk for a broker that is killed without ending the process: it releases the locks that the kernel would release."""

    def __init__(self) -> None:
        super().__init__()
        self._locks: list[DirectoryLock] = []

    def lock_directory(self, path: str) -> DirectoryLock:
        lock = super().lock_directory(path)
        self._locks.append(lock)
        return lock

    def unlock_all(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks.clear()


class Broker:
    """One broker. It may be stopped and started again, with the same data and the same address."""

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Data is written to `directory`, or kept in memory. `settings` are broker settings with Kafka's names."""
        self._directory = _MEMORY_DIRECTORY if directory is None else os.path.abspath(directory)
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        require_known(list(self._settings))
        self._disk: MemoryDisk | KillableDisk = MemoryDisk() if directory is None else KillableDisk()
        self._network = FaultyNetwork()
        self._port = 0
        self._thread: LoopThread | None = None
        self._server: BrokerServer | None = None
        self.faults = Faults(self._network, self._memory_disk, self._run_now)

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<catchment.Broker {self.bootstrap_servers if self.is_running else 'stopped'}>"

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def bootstrap_servers(self) -> str:
        """The value for `bootstrap.servers` of a client."""
        if not self.is_running:
            raise RuntimeError("The broker is not running: use it in a `with` statement, or call start().")
        return f"{_HOST}:{self._port}"

    def listener_port(self, name: str) -> int:
        """The port of one of several `listeners`, by its name."""
        if self._server is None:
            raise RuntimeError("The broker is not running.")
        return self._server.endpoints[name].port

    def start(self) -> None:
        """Return once clients can connect. Raises the error that kept the broker from starting."""
        if self.is_running:
            raise RuntimeError("The broker is running already.")
        settings = self._effective_settings()
        thread = LoopThread("catchment-broker")
        try:
            self._server = thread.run(self._start_server(settings), _START_SECONDS)
        except BaseException:
            thread.end(_STOP_SECONDS)
            raise
        self._thread = thread

    def stop(self) -> None:
        """Shut down cleanly. Does nothing if the broker is not running."""
        self._end(lambda server: server.close())

    def kill(self, *, power_loss: Random | None = None) -> None:
        """Stop as `kill -9` would: no response is sent any more, nothing is flushed.

        With `power_loss`, a broker in memory also loses a random part of what it had not synced.
        """
        disk = self._disk
        if power_loss is not None and not isinstance(disk, MemoryDisk):
            raise ValueError("Only a broker that keeps its data in memory can lose what it has not synced.")
        self._end(lambda server: self._network.die())
        disk.unlock_all()
        if power_loss is not None and isinstance(disk, MemoryDisk):
            self._disk = disk.crash(power_loss)

    def restart(self) -> None:
        """Stop cleanly and start again, with the same data and the same address."""
        self.stop()
        self.start()

    def create_topic(self, name: str, partitions: int = 1, *, settings: Mapping[str, object] | None = None) -> None:
        """Create a topic without a client. Any Kafka admin client works too."""
        texts = {key: _text(value) for key, value in (settings or {}).items()}
        self._await(lambda server: server.services.controller.create_topic(NewTopic(name, partitions, settings=texts)))

    def delete_topic(self, name: str) -> None:
        self._await(lambda server: server.services.controller.delete_topic(name))

    async def _start_server(self, settings: BrokerSettings) -> BrokerServer:
        server = BrokerServer(
            settings, clock=SystemClock(), disk=self._disk, network=self._network, interceptor=self.faults
        )
        await server.start()
        self._port = next(iter(server.endpoints.values())).port
        return server

    def _effective_settings(self) -> BrokerSettings:
        defaults = {
            "listeners": f"PLAINTEXT://{_HOST}:{self._port}",
            "log.dirs": self._directory,
            "node.id": "1",
            # A test has no other members to wait for, and few groups and transactions.
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        }
        return BrokerSettings({**defaults, **self._settings})

    def _end(self, last_act: Callable[[BrokerServer], Coroutine[Any, Any, None]]) -> None:
        thread, self._thread = self._thread, None
        server, self._server = self._server, None
        if thread is None or server is None:
            return
        try:
            thread.run(last_act(server), _STOP_SECONDS)
        finally:
            thread.end(_STOP_SECONDS)
            self._network.forget_connections()

    def _await(self, call: Callable[[BrokerServer], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine on the loop of the broker."""
        if self._server is None or self._thread is None:
            raise RuntimeError("The broker is not running.")
        return self._thread.run(call(self._server), _STOP_SECONDS)

    def _run_now(self, action: Callable[[], None]) -> None:
        async def run(_: BrokerServer) -> None:
            action()

        self._await(run)

    def _memory_disk(self) -> MemoryDisk | None:
        return self._disk if isinstance(self._disk, MemoryDisk) else None


def _text(value: object) -> str:
    """A setting's value as in a properties file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(_text(element) for element in value)
    return str(value)
