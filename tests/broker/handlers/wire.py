"""A blocking client for the tests of handlers: one request, one answer, at any version."""

import socket
import struct
from collections import deque
from types import TracebackType
from typing import Any, Protocol

from confluent_kafka import Producer

from catchment.protocol.client import ClientProtocol, Response
from catchment.testing.embedded import Broker

_DEADLINE_S = 150


class Listening(Protocol):
    """A Catchment broker, or another one."""

    @property
    def bootstrap_servers(self) -> str: ...


class Wire:
    def __init__(self, broker: Listening, port: int | None = None) -> None:
        """Connect to the broker's first listener, or to the one at `port`."""
        host, _, first_port = broker.bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, port or int(first_port)), timeout=_DEADLINE_S)
        self._protocol = ClientProtocol("test")
        self._answers: deque[Response] = deque()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Any, version: int) -> Any:
        """Send the request, given as the newest class, at this version; its answer as the newest class."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Any, version: int) -> None:
        self._socket.sendall(self._protocol.request(request, version))

    def exchange(self, frame: bytes) -> bytes:
        """Send a frame as it is; the frame that comes back."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        received = b""
        while len(received) < 4 or len(received) < 4 + struct.unpack(">i", received[:4])[0]:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the broker closed the connection")
            received += data
        return received[4:]

    def receive(self) -> Any:
        """The next answer; several may arrive together."""
        while not self._answers:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._answers += self._protocol.receive(data)
        return self._answers.popleft().decode()


def produce(broker: Broker, topic: str, values: list[bytes], partition: int = 0) -> None:
    """Write the values, each in a batch of its own, and return when all are acknowledged by a synced disk."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "message.timeout.ms": 30_000})
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error))
        producer.flush(_DEADLINE_S)
    assert failures == [None] * len(values)
