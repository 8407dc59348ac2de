"""The brokers of a cluster, and requests to whom they are for.

Whom a request is for is said by a target: any broker, the controller, a broker by its id, or the coordinator of a group or
of a transactional id. What passes by itself, a lost connection or a coordinator that moves, is tried again until the time
is over. Connections are made when they are first needed.
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
    """The broker that coordinates `key`, which names a group or is a transactional id."""

    key: str
    key_type: int
    """`GROUP` or `TRANSACTION`."""


Target = Literal["any", "controller"] | int | Coordinator
"""An integer is a broker's id."""


_NO_CONTROLLER: Final = -1
_MOST_COORDINATORS: Final = 10_000
"""So many are remembered: names of groups and transactional ids may come and go for as long as the process lives."""
_PATIENCE: Final = 0.5
"""The share of a call's time that one answer may take."""
_MOST_AHEAD: Final = 256
"""So many requests are sent ahead of their answers."""
# What the same request, sent again to whoever is in charge by then, is spared.
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


def top_level_error(answer: Any) -> ErrorCode:
    """The error code of an answer as a whole; none if this API has no field for one."""
    code: ErrorCode = getattr(answer, "error_code", ErrorCode.none)
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
        """Close the connections that the cluster keeps; those got by `connection` are their owners' to close."""
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
        """The answer to a request, both as the newest classes of their API, at the newest version that both sides know.

        `error_of` finds the code in the answer that decides whether to ask again; all other codes are the caller's to read.
        With `once` there is no second attempt, for callers who would then turn to another broker.
        `newest_version` keeps to older versions, where later ones mean something else.
        """
        deadline = self.deadline(timeout_s)

        def attempt() -> Any:
            connection = self._connection_to(to, deadline)
            version = connection.version_of(request.__api_key__)
            if newest_version is not None:
                version = min(version, newest_version)
            answer = connection.ask(request, self._patience_s(deadline), version)
            code = error_of(answer)
            if code in _PASSING:
                raise_for(code, f"{type(request).__name__.removesuffix('Request')} was not served")
            return answer

        return attempt() if once else self._persist(attempt, to, deadline)

    def ask_together(self, requests: Sequence[tuple[Any, Target]], *, newest_version: int | None = None) -> list[Any]:
        """The answers to many requests, of which none waits for the answer to another; None for those that got none.

        There are no second attempts: `ask` has them, for what is left.
        """
        answers: list[Any] = []
        for start in range(0, len(requests), _MOST_AHEAD):
            answers += self._ask_ahead(requests[start : start + _MOST_AHEAD], newest_version)
        return answers

    def connection(self, broker_id: int, deadline: Deadline | None = None) -> Connection:
        """A connection that nobody else uses, for requests sent ahead of their answers. The caller closes or releases it."""
        deadline = deadline or self.deadline()
        address = self._address(broker_id, deadline)
        spare = self._spare.pop(address, None)
        if spare is not None:
            # Nothing is due on it: what can be received is the end of the connection.
            if spare.is_open and not wait([spare], 0):
                return spare
            spare.close()
        return self._open(address, deadline)

    def release(self, broker_id: int, connection: Connection) -> None:
        """Keep a connection got by `connection` for the next who wants one, if it is as good as new; else close it."""
        address = self._brokers.get(broker_id)
        if address is None or address in self._spare or connection.pending or not connection.is_open:
            connection.close()
        else:
            self._spare[address] = connection

    def feature(self, name: str) -> int:
        """The level of a feature that the cluster has agreed on, such as `transaction.version`; 0 if it has not."""
        deadline = self.deadline()
        return self._persist(lambda: self._any(deadline).feature(name), "any", deadline)

    def broker_ids(self) -> list[int]:
        """The brokers that are there now."""
        self.read_metadata((), self.deadline())
        return sorted(self._brokers)

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """When a call that begins now must be over."""
        return Deadline(self._timeout_s if timeout_s is None else timeout_s)

    def backoff(self, deadline: Deadline) -> Backoff:
        """The pauses between the attempts of one call."""
        return Backoff(self._settings.retry_backoff_s, self._settings.retry_backoff_max_s, deadline)

    def _ask_ahead(self, requests: Sequence[tuple[Any, Target]], newest_version: int | None) -> list[Any]:
        deadline = self.deadline()
        answers: list[Any] = [None] * len(requests)
        waiting: dict[Connection, list[int]] = {}
        # Whom each request is for may have to be asked on the same connections, so that comes before all of them.
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
                        answers[number] = connection.answer(deadline.left_s())
        finally:
            for connection in waiting:
                # Answers that come later must not be taken for those to later requests.
                if connection.pending:
                    connection.close()
        return answers

    def _persist(self, attempt: Callable[[], Result], to: Target, deadline: Deadline) -> Result:
        """Try until it works, what is wrong does not pass by itself, or the time is over."""
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
        """How long one broker may take for an answer: a silent one must leave time to ask another."""
        return min(deadline.left_s(), self._settings.request_timeout_s, deadline.timeout_s * _PATIENCE)

    def _forget(self, to: Target) -> None:
        """Look anew for whoever is in charge."""
        if isinstance(to, Coordinator):
            self._coordinators.pop(to, None)
        elif to == "controller":
            self._controller_id = _NO_CONTROLLER

    def read_metadata(self, topics: Iterable[str] | None, deadline: Deadline, *, create: bool = False) -> Any:
        """Metadata of these topics, or of all; where the brokers are is remembered from it."""
        answer = self.ask(metadata_request(topics, create=create), timeout_s=deadline.left_s())
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._controller_id = answer.controller_id
        return answer

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
        """Where the first to ask makes the coordinator's topic, the answer takes a moment to come."""
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
