"""The brokers of a cluster, and how a request finds the right one.

A target says which broker a request is for: any, the controller, a broker by its id, or the coordinator of a group or of a
transactional id. Retriable failures, such as a lost connection or a coordinator that moves, are retried until the deadline.
Connections are opened when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.static.primitive import i8

from catchment.client.errors import BrokerError, ClientError, NoSuchBroker, TimedOut, Unreachable, raise_for
from catchment.client.network.connection import Connection, wait
from catchment.client.network.deadline import Backoff, Deadline
from catchment.client.settings import ConnectionSettings, split_addresses
from catchment.client.topic_metadata import metadata_request

GROUP: Final = 0
TRANSACTION: Final = 1


class Coordinator(NamedTuple):
    """The broker that coordinates `key`, a group id or a transactional id."""

    key: str
    key_type: int
    """`GROUP` or `TRANSACTION`."""


Target = Literal["any", "controller"] | int | Coordinator
"""An integer is a broker's id."""


_NO_CONTROLLER: Final = -1
_MOST_COORDINATORS: Final = 10_000
"""How many are cached: a long-running process may see any number of groups and transactional ids."""
_PATIENCE: Final = 0.5
"""The fraction of a call's timeout that one response may take."""
_MOST_AHEAD: Final = 256
"""How many requests are sent ahead of their responses."""
# Errors that a retry, perhaps at another broker, can resolve.
_PASSING: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.network_exception,
        ErrorCode.not_controller,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
        ErrorCode.unstable_offset_commit,
    }
)

Address = tuple[str, int]
Result = TypeVar("Result")


def top_level_error(response: Any) -> ErrorCode:
    """The top-level error code of a response; none if this API has no field for one."""
    code: ErrorCode = getattr(response, "error_code", ErrorCode.none)
    return code


class Brokers:
    """The brokers of one cluster, for one thread of one process."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str], timeout_s: float) -> None:
        self._bootstrap = split_addresses(bootstrap_servers)
        self._settings = ConnectionSettings.read(settings)
        self._timeout_s = timeout_s
        self._connections: dict[Address, Connection] = {}
        self._spare: dict[Address, Connection] = {}
        self._brokers: dict[int, Address] = {}
        self._controller_id = _NO_CONTROLLER
        self._coordinators: dict[Coordinator, Address] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of the cluster. Those that `connection` returned are closed by their callers."""
        for connection in (*self._connections.values(), *self._spare.values()):
            connection.close()
        self._connections.clear()
        self._spare.clear()

    def ask(
        self,
        request: Any,
        *,
        to: Target = "any",
        timeout_s: float | None = None,
        once: bool = False,
        error_of: Callable[[Any], ErrorCode] = top_level_error,
        newest_version: int | None = None,
    ) -> Any:
        """Send a request and return the response, both as the newest classes of their API, at the newest version that both sides have.

        `error_of` returns the code of the response that decides about a retry; the caller handles all other codes.
        With `once` there is no retry, for callers that would then try another broker.
        `newest_version` limits the version, where later ones have another meaning.
        """
        deadline = self.deadline(timeout_s)

        def attempt() -> Any:
            connection = self._connection_to(to, deadline)
            version = connection.version_of(request.__api_key__)
            if newest_version is not None:
                version = min(version, newest_version)
            response = connection.ask(request, self._patience_s(deadline), version)
            code = error_of(response)
            if code in _PASSING:
                raise_for(code, f"{type(request).__name__.removesuffix('Request')} failed")
            return response

        return attempt() if once else self._persist(attempt, to, deadline)

    def ask_together(self, requests: Sequence[tuple[Any, Target]], *, newest_version: int | None = None) -> list[Any]:
        """The responses to many requests, sent without waiting for each other; None for those without a response.

        There are no retries: use `ask` for the requests that are left.
        """
        responses: list[Any] = []
        for start in range(0, len(requests), _MOST_AHEAD):
            responses += self._ask_ahead(requests[start : start + _MOST_AHEAD], newest_version)
        return responses

    def connection(self, broker_id: int, deadline: Deadline | None = None) -> Connection:
        """A connection for the caller alone, for requests sent ahead of their responses. The caller closes or releases it."""
        deadline = deadline or self.deadline()
        address = self._address(broker_id, deadline)
        spare = self._spare.pop(address, None)
        if spare is not None:
            # No response is due, so if there is something to receive, the broker has closed the connection.
            if spare.is_open and not wait([spare], 0):
                return spare
            spare.close()
        return self._open(address, deadline)

    def release(self, broker_id: int, connection: Connection) -> None:
        """Keep a connection that `connection` returned for the next caller, if it has no requests in flight; else close it."""
        address = self._brokers.get(broker_id)
        if address is None or address in self._spare or connection.pending or not connection.is_open:
            connection.close()
        else:
            self._spare[address] = connection

    def feature(self, name: str) -> int:
        """The finalized level of a feature of the cluster, such as `transaction.version`; 0 if it has none."""
        deadline = self.deadline()
        return self._persist(lambda: self._any(deadline).feature(name), "any", deadline)

    def broker_ids(self) -> list[int]:
        """The ids of the running brokers."""
        self.read_metadata((), self.deadline())
        return sorted(self._brokers)

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """The deadline of a call that starts now."""
        return Deadline(self._timeout_s if timeout_s is None else timeout_s)

    def backoff(self, deadline: Deadline) -> Backoff:
        """The pauses between the attempts of one call."""
        return Backoff(self._settings.retry_backoff_s, self._settings.retry_backoff_max_s, deadline)

    def _ask_ahead(self, requests: Sequence[tuple[Any, Target]], newest_version: int | None) -> list[Any]:
        deadline = self.deadline()
        responses: list[Any] = [None] * len(requests)
        waiting: dict[Connection, list[int]] = {}
        # Finding a coordinator may need a request on the same connections, so that is done before all requests.
        for number, (_, to) in enumerate(requests):
            with suppress(Unreachable, TimedOut, BrokerError):
                waiting.setdefault(self._connection_to(to, deadline), []).append(number)
        try:
            for connection, numbers in waiting.items():
                try:
                    for number in numbers:
                        request, _ = requests[number]
                        version = connection.version_of(request.__api_key__)
                        connection.send(request, version if newest_version is None else min(version, newest_version))
                except (Unreachable, TimedOut):
                    connection.close()
            for connection, numbers in waiting.items():
                with suppress(Unreachable, TimedOut):
                    for number in numbers:
                        responses[number] = connection.receive_response(deadline.left_s())
        finally:
            for connection in waiting:
                # A late response must not be taken for that to a later request.
                if connection.pending:
                    connection.close()
        return responses

    def _persist(self, attempt: Callable[[], Result], to: Target, deadline: Deadline) -> Result:
        """Retry until the attempt succeeds, fails with an error that is not retriable, or the deadline passes."""
        backoff = self.backoff(deadline)
        while True:
            failure: ClientError
            try:
                return attempt()
            except NoSuchBroker:
                raise
            except (Unreachable, TimedOut) as error:
                failure = error
            except BrokerError as error:
                if error.code not in _PASSING:
                    raise
                failure = error
            self._forget(to)
            if not backoff.pause():
                raise failure

    def _patience_s(self, deadline: Deadline) -> float:
        """How long to wait for the response of one broker. It leaves time to try another one."""
        return min(deadline.left_s(), self._settings.request_timeout_s, deadline.timeout_s * _PATIENCE)

    def _forget(self, to: Target) -> None:
        """Look up the controller or the coordinator again."""
        if isinstance(to, Coordinator):
            self._coordinators.pop(to, None)
        elif to == "controller":
            self._controller_id = _NO_CONTROLLER

    def read_metadata(self, topics: Iterable[str] | None, deadline: Deadline, *, create: bool = False) -> Any:
        """Fetch the metadata of these topics, or of all, and remember the addresses of the brokers."""
        response = self.ask(metadata_request(topics, create=create), timeout_s=deadline.left_s())
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self._controller_id = response.controller_id
        return response

    def _connection_to(self, to: Target, deadline: Deadline) -> Connection:
        if to == "any":
            return self._any(deadline)
        if isinstance(to, Coordinator):
            return self._kept(self._coordinator(to, deadline), deadline)
        return self._kept(self._address(self._controller(deadline) if to == "controller" else to, deadline), deadline)

    def _any(self, deadline: Deadline) -> Connection:
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        failures: list[ClientError] = []
        for address in dict.fromkeys([*self._bootstrap, *self._brokers.values()]):
            try:
                return self._kept(address, deadline)
            except (Unreachable, TimedOut) as error:
                failures.append(error)
        raise failures[0]

    def _controller(self, deadline: Deadline) -> int:
        if self._controller_id == _NO_CONTROLLER:
            self.read_metadata((), deadline)
        if self._controller_id == _NO_CONTROLLER:
            raise Unreachable("the cluster has no controller", "Start its other brokers.")
        return self._controller_id

    def _address(self, broker_id: int, deadline: Deadline) -> Address:
        if broker_id not in self._brokers:
            self.read_metadata((), deadline)
        if broker_id not in self._brokers:
            raise NoSuchBroker(f"the cluster has no broker {broker_id}", "Check that it is up.")
        return self._brokers[broker_id]

    def _coordinator(self, wanted: Coordinator, deadline: Deadline) -> Address:
        """The first lookup creates the topic of the coordinator, so it may take a moment."""
        if wanted not in self._coordinators:
            request = FindCoordinatorRequest(key_type=i8(wanted.key_type), coordinator_keys=(wanted.key,))
            (found,) = self._any(deadline).ask(request, self._patience_s(deadline)).coordinators
            raise_for(found.error_code, f"cannot find the coordinator of {wanted.key}", found.error_message)
            if len(self._coordinators) >= _MOST_COORDINATORS:
                self._coordinators.clear()
            self._coordinators[wanted] = (found.host, found.port)
        return self._coordinators[wanted]

    def _kept(self, address: Address, deadline: Deadline) -> Connection:
        """The connection for single requests to an address."""
        kept = self._connections.get(address)
        if kept is None or not kept.is_open:
            if kept is not None:
                kept.close()
            kept = self._connections[address] = self._open(address, deadline)
        return kept

    def _open(self, address: Address, deadline: Deadline) -> Connection:
        setup_s = min(deadline.left_s(), self._settings.setup_timeout_s)
        return Connection(*address, self._settings, setup_s)
