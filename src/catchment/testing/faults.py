"""Fault injection, for tests of programs that use a broker: each fault is switched on and off while the broker runs.

The broker itself is not changed: errors are returned instead of calling its handlers, connections fail in its network port, and
its disk port fills up or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import Route
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol import fetch, produce
from catchment.protocol.apis import APIS
from catchment.protocol.errors import ApiError
from catchment.testing.error_responses import error_response
from catchment.testing.faulty_network import FaultyNetwork

_KEYS: Final = {api.name.lower(): key for key, api in APIS.items()}
_METADATA: Final = 3

OnLoop = Callable[[Callable[[], None]], None]


class Faults:
    """The faults of one broker. Every method may be called from any thread."""

    def __init__(self, network: FaultyNetwork, disk: Callable[[], MemoryDisk | None], run_on_loop: OnLoop) -> None:
        self._network = network
        self._disk = disk
        self._run_on_loop = run_on_loop
        self._errors: dict[int, list[ErrorCode]] = {}

    def answer(self, api: str, error: ErrorCode | str, times: int = 1) -> None:
        """Respond to the next `times` requests of an API, such as "Produce", with an error, such as "NOT_LEADER_OR_FOLLOWER".

        The requests have no other effect. Calls add up: the errors are returned in the order of the calls.
        """
        self._errors.setdefault(_api_key(api), []).extend([_error_code(error)] * times)

    def answers_left(self, api: str) -> int:
        """How many requests of the API will still get an error."""
        return len(self._errors.get(_api_key(api), ()))

    def refuse_connections(self) -> None:
        """Reset every new connection as soon as it is accepted."""
        self._network.refuses = True

    def accept_connections(self) -> None:
        self._network.refuses = False

    def drop_connections(self) -> None:
        """Reset all current connections."""
        self._run_on_loop(self._network.drop)

    def delay_connections(self, delay_s: float) -> None:
        """Delay everything that clients send by this many seconds; 0 ends the delay."""
        self._network.delay_s = delay_s

    def fill_disk(self, bytes_left: int = 0) -> None:
        """Let the disk accept only `bytes_left` more bytes."""
        self._memory_disk().fill(bytes_left)

    def free_disk(self) -> None:
        """Free the disk again."""
        self._memory_disk().make_room()

    def fail_disk_writes(self, fails: bool = True) -> None:
        """Let every write to the disk fail."""
        self._memory_disk().fail_writes = fails

    def fail_disk_syncs(self, fails: bool = True) -> None:
        """Let every sync of the disk fail, and lose what was not synced before.

        A partition whose sync has failed accepts no writes until the broker is restarted, even if the disk works again.
        """
        self._memory_disk().fail_syncs = fails

    def clear(self) -> None:
        """End every fault. The effects of past faults remain."""
        self._errors.clear()
        self._network.refuses = False
        self._network.delay_s = 0.0
        disk = self._disk()
        if disk is not None:
            disk.make_room()
            disk.fail_writes = disk.fail_syncs = disk.read_only = False

    def intercept(self, route: Route, context: RequestContext, request: Any) -> Coroutine[Any, Any, Any] | None:
        """The hook of the broker: what to run instead of the handler."""
        codes = self._errors.get(route.key)
        if not codes:
            return None
        return _respond_with(codes.pop(0), route, context, request)

    def _memory_disk(self) -> MemoryDisk:
        disk = self._disk()
        if disk is None:
            raise ValueError(
                "Only a broker that keeps its data in memory has a disk that can fail; leave `directory` out."
            )
        return disk


async def _respond_with(code: ErrorCode, route: Route, context: RequestContext, request: Any) -> Any:
    if isinstance(request, produce.ProduceRequest):
        return _produce_response(code, request)
    if isinstance(request, fetch.FetchRequest):
        from catchment.broker.handlers.fetch import FetchResponse

        topics = [
            fetch.TopicResponse(
                topic.topic, [fetch.PartitionResponse(asked.partition, code.value) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
        return FetchResponse(topics, error_code=0 if topics else code.value)
    if route.key == _METADATA:
        # A client without any broker in the metadata could not continue, so only the topics of the real response are changed.
        response = await route.handler(context, request)
        return replace(
            response, topics=tuple(replace(topic, error_code=code, partitions=()) for topic in response.topics)
        )
    return error_response(route.key, request, code)


def _produce_response(code: ErrorCode, request: produce.ProduceRequest) -> list[produce.TopicResponse] | None:
    if request.acks == 0:
        raise ApiError(code)
    return [
        produce.TopicResponse(
            topic.topic, [produce.PartitionResponse(data.partition, code.value) for data in topic.partitions]
        )
        for topic in request.topics
    ]


def _api_key(name: str) -> int:
    try:
        return _KEYS[name.lower()]
    except KeyError:
        known = ", ".join(sorted(api.name for api in APIS.values()))
        raise ValueError(f"Kafka has no API named {name}. It has: {known}") from None


def _error_code(error: ErrorCode | str) -> ErrorCode:
    if isinstance(error, ErrorCode):
        return error
    try:
        return ErrorCode[error.lower()]
    except KeyError:
        raise ValueError(f"Kafka has no error named {error}, such as NOT_LEADER_OR_FOLLOWER") from None
