"""Requests to single brokers of a cluster, for what confluent-kafka has no call for.

A request is sent at the newest version that both sides know, after the broker has told its versions; so this serves an
Apache Kafka cluster as well. Whom a request is for is said by a target: any broker, the controller, a broker by its id, or
the coordinator of a group or of a transactional id. Connections are plain ones: neither TLS nor SASL.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.metadata.v13.request import MetadataRequest
from kio.static.primitive import i8

from catchment.cli.failure import CommandError
from catchment.cli.wire import require_reachable, split_address
from catchment.protocol.apis import APIS
from catchment.protocol.client import ClientProtocol
from catchment.protocol.errors import MalformedRequest

GROUP: Final = 0
TRANSACTION: Final = 1

_CLIENT_ID: Final = "catchment-cli"
_API_VERSIONS_VERSION: Final = 3
_PAUSE_S: Final = 0.1
_COMING: Final = frozenset({ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress})
_ADVICE: Final = "Check that the broker is up and that its advertised.listeners can be reached from here."


class Coordinator(NamedTuple):
    """The broker that coordinates `key`, which names a group or is a transactional id."""

    key: str
    key_type: int
    """`GROUP` or `TRANSACTION`."""


Target = Literal["any", "controller"] | int | Coordinator
"""An integer is a broker's id."""


class BrokerConnection:
    """One plain connection, and the versions of the broker at its other end."""

    def __init__(self, host: str, port: int, deadline_s: float) -> None:
        self._name = f"{host}:{port}"
        self._deadline_s = deadline_s
        self._protocol = ClientProtocol(_CLIENT_ID)
        with self._told():
            self._socket = socket.create_connection((host, port), self._left_s())
        try:
            self._versions = self._read_versions()
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Any) -> Any:
        """The answer to a request; both are the newest classes of their API."""
        api = APIS[request.__api_key__]
        oldest, newest = self._versions.get(request.__api_key__, (0, -1))
        version = min(api.newest, newest)
        if version < max(api.oldest, oldest):
            raise CommandError(f"the broker at {self._name} does not serve {api.name}", "It may be an older Kafka.")
        return self._exchange(request, version)

    def _read_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="catchment", client_software_version="cli")
        answer = self._exchange(request, _API_VERSIONS_VERSION)
        return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}

    def _exchange(self, request: Any, version: int) -> Any:
        with self._told():
            self._socket.settimeout(self._left_s())
            self._socket.sendall(self._protocol.request(request, version))
            while True:
                self._socket.settimeout(self._left_s())
                data = self._socket.recv(1 << 20)
                if not data:
                    raise ConnectionError("it closed the connection")
                for answer in self._protocol.receive(data):
                    return answer.decode()

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("it did not answer in time")
        return left_s

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, MalformedRequest) as error:
            raise CommandError(f"no answer from {self._name}: {error}", _ADVICE) from error


class Requests:
    """The brokers of one cluster, each connected to when it is first asked."""

    def __init__(self, bootstrap_servers: str, timeout_s: float) -> None:
        require_reachable(bootstrap_servers)
        self._bootstrap_servers = bootstrap_servers
        self._deadline_s = time.monotonic() + timeout_s
        self._connections: dict[tuple[str, int], BrokerConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def ask(self, request: Any, *, to: Target = "any") -> Any:
        """The answer of the broker that the request is for, as the newest class."""
        return self._connection_to(to).ask(request)

    def broker_ids(self) -> list[int]:
        return sorted(broker.node_id for broker in self._metadata().brokers)

    def _connection_to(self, target: Target) -> BrokerConnection:
        if target == "any":
            return self._any()
        if isinstance(target, Coordinator):
            return self._coordinator(target)
        metadata = self._metadata()
        wanted = metadata.controller_id if target == "controller" else target
        for broker in metadata.brokers:
            if broker.node_id == wanted:
                return self._connect(broker.host, broker.port)
        raise CommandError(f"the cluster has no broker {wanted}" if wanted != -1 else "the cluster has no controller")

    def _any(self) -> BrokerConnection:
        if self._connections:
            return next(iter(self._connections.values()))
        failure: CommandError | None = None
        for server in self._bootstrap_servers.split(","):
            try:
                return self._connect(*split_address(server.strip()))
            except CommandError as error:
                failure = error
        raise failure or CommandError("no bootstrap server is named")

    def _connect(self, host: str, port: int) -> BrokerConnection:
        if (host, port) not in self._connections:
            self._connections[host, port] = BrokerConnection(host, port, self._deadline_s)
        return self._connections[host, port]

    def _metadata(self) -> Any:
        return self._any().ask(
            MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        )

    def _coordinator(self, wanted: Coordinator) -> BrokerConnection:
        """Where the first to ask makes the coordinator's topic, the answer takes a moment to come."""
        request = FindCoordinatorRequest(key_type=i8(wanted.key_type), coordinator_keys=(wanted.key,))
        while True:
            (found,) = self._any().ask(request).coordinators
            if found.error_code is ErrorCode.none:
                return self._connect(found.host, found.port)
            if found.error_code not in _COMING or time.monotonic() + _PAUSE_S > self._deadline_s:
                raise refused(f"cannot find the coordinator of {wanted.key}", found.error_code, found.error_message)
            time.sleep(_PAUSE_S)


@contextmanager
def open_requests(bootstrap_servers: str, settings: Mapping[str, str], timeout_s: float) -> Iterator[Requests]:
    """Requests to a cluster, all of them within `timeout_s`. Client settings that ask for TLS or SASL are refused."""
    if settings.get("security.protocol", "plaintext").lower() != "plaintext":
        raise CommandError(
            "this command speaks to plain listeners only",
            "Name a PLAINTEXT listener of the cluster, and leave security.protocol out.",
        )
    requests = Requests(bootstrap_servers, timeout_s)
    try:
        yield requests
    finally:
        requests.close()


def refused(subject: str, code: ErrorCode, message: str | None) -> CommandError:
    """A broker's error code in words; `subject` says what was tried on what."""
    return CommandError(f"{subject}: {message or code.name.replace('_', ' ')} ({code.name.upper()})")
