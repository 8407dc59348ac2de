"""What the benchmark needs from every server: start, address, use of resources, stop."""

from __future__ import annotations

import abc
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from catchment.bench.peers.process import ServerProcess
from catchment.ports.network import free_port

START_TIMEOUT_SECONDS = 90
# A client that polls often, so that the time to the first record is that of the server.
_IMPATIENT = {
    # On a busy machine a topic may take longer to create than the client's default of half a minute.
    "topic.metadata.propagation.max.ms": START_TIMEOUT_SECONDS * 1000,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 10,
    "retry.backoff.ms": 10,
    "linger.ms": 0,
    "acks": "all",
    "log_level": 0,
}


class Server(abc.ABC):
    """A server with default settings on a free loopback port, with its data in a temporary directory."""

    name: str
    deletes_topics = True

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix=f"catchment-bench-{self.name}-"))
        self._process: ServerProcess | None = None
        self._command: Sequence[str] = ()
        self.port = free_port()
        self.start_seconds = 0.0

    @abc.abstractmethod
    def command(self, directory: Path) -> Sequence[str]:
        """The command that starts it with all its files under `directory`. Prepares what has to be prepared once."""

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> ServerProcess:
        """The running process."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process

    def environment(self, directory: Path) -> Mapping[str, str]:
        """Additional environment variables of the process."""
        return {}

    def start(self) -> None:
        """Start it and wait until it serves requests; `start_seconds` is how long that took."""
        self._command = self.command(self._directory)
        self._run()

    def restart(self) -> None:
        """Stop it cleanly and restart it on the same data; `start_seconds` is measured again."""
        self.process.stop()
        self._run()

    def _run(self) -> None:
        serves = self.readiness()
        began = time.perf_counter()
        self._process = ServerProcess(self._command, self._directory / "output.log", self.environment(self._directory))
        while not serves():
            self._process.check_running()
            if time.perf_counter() - began > START_TIMEOUT_SECONDS:
                raise RuntimeError(f"{self.name} was not ready within {START_TIMEOUT_SECONDS} s")
        self.start_seconds = time.perf_counter() - began

    def readiness(self) -> Callable[[], bool]:
        """A check to repeat until it succeeds: that a first record is acknowledged."""
        outcome: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcome.append(error)

        def acknowledged() -> bool:
            producer.poll(0.01)
            if outcome and outcome[0] is not None:
                raise RuntimeError(f"{self.name} rejected its first record: {outcome[0]}")
            return bool(outcome)

        # The client is started before the server, so that its own start does not count.
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, **_IMPATIENT, "error_cb": lambda error: None})
        producer.produce("first-record", b"first", on_delivery=delivered)
        return acknowledged

    def stop(self) -> None:
        """Stop it and delete its data."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
