"""Faults on demand, for tests of programs that use a broker: each is switched on and off while the broker runs.

The broker itself is not changed: errors are answered in front of its handlers, connections fail in the network it was
given, and the disk that it was given fills up or fails.
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
from catchment.testing.error_answers import error_answer
from catchment.testing.faulty_network import FaultyNetwork

_KEYS: Final = {api.name.lower(): key for key, api in APIS.items()}
_METADATA: Final = 3

OnLoop = Callable[[Callable[[], None]], None]


class Faults:
    """What may go wrong with one broker. Every method may be called from any thread."""

    def __init__(self, network: FaultyNetwork, disk: Callable[[], MemoryDisk | None], run_on_loop: OnLoop) -> None:
        self._network = network
        self._disk = disk
        self._run_on_loop = run_on_loop
        self._answers: dict[int, list[ErrorCode]] = {}

    def answer(self, api: str, error: ErrorCode | str, times: int = 1) -> None:
        """Answer the next `times` requests of an API, such as "Produce", with an error, such as "NOT_LEADER_OR_FOLLOWER".

        The requests have no other effect. Calls add up: the errors are given in the order of the calls.
        """
        self._answers.setdefault(_api_key(api), []).extend([_error_code(error)] * times)

    def answers_left(self, api: str) -> int:
        """How many of the API's requests are still to be answered with an error."""
        return len(self._answers.get(_api_key(api), ()))

    def refuse_connections(self) -> None:
        """Reset every new connection as soon as it is made."""
        self._network.refuses = True

    def accept_connections(self) -> None:
        self._network.refuses = False

    def drop_connections(self) -> None:
        """Reset every connection there is now."""
        self._run_on_loop(self._network.drop)

    def delay_connections(self, delay_s: float) -> None:
        """Let everything that clients send arrive so much later; 0 ends it."""
        self._network.delay_s = delay_s

    def fill_disk(self, bytes_left: int = 0) -> None:
        """Let the disk take only so many bytes more."""
        self._memory_disk().fill(bytes_left)

    def free_disk(self) -> None:
        """Give the disk room again."""
        self._memory_disk().make_room()

    def fail_disk_writes(self, fails: bool = True) -> None:
        """Let every write to the disk fail."""
        self._memory_disk().fail_writes = fails

    def fail_disk_syncs(self, fails: bool = True) -> None:
        """Let every sync of the disk fail, and lose what was not synced before.

        A partition whose sync has failed takes no more writes until the broker is started again, whatever the disk does then.
        """
        self._memory_disk().fail_syncs = fails

    def clear(self) -> None:
        """End every fault. What a fault has already done stays done."""
        self._answers.clear()
        self._network.refuses = False
        self._network.delay_s = 0.0
        disk = self._disk()
        if disk is not None:
            disk.make_room()
            disk.fail_writes = disk.fail_syncs = disk.read_only = False

    def intercept(self, route: Route, context: RequestContext, request: Any) -> Coroutine[Any, Any, Any] | None:
        """The broker's hook: what to run in place of the handler."""
        codes = self._answers.get(route.key)
        if not codes:
            return None
        return _answer_with(codes.pop(0), route, context, request)

    def _memory_disk(self) -> MemoryDisk:
        disk = self._disk()
        if disk is None:
            raise ValueError(
                "Only a broker that keeps its data in memory has a disk that can fail; leave `directory` out."
            )
        return disk


async def _answer_with(code: ErrorCode, route: Route, context: RequestContext, request: Any) -> Any:
    if isinstance(request, produce.ProduceRequest):
        return _produce_answer(code, request)
    if isinstance(request, fetch.FetchRequest):
        from catchment.broker.handlers.fetch import FetchAnswer

        topics = [
            fetch.TopicResponse(
                topic.topic, [fetch.PartitionResponse(asked.partition, code.value) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
        return FetchAnswer(topics, error_code=0 if topics else code.value)
    if route.key == _METADATA:
        # A client that is told of no broker has nobody left to ask, so only the topics of the true answer are changed.
        answer = await route.handler(context, request)
        return replace(answer, topics=tuple(replace(topic, error_code=code, partitions=()) for topic in answer.topics))
    return error_answer(route.key, request, code)


def _produce_answer(code: ErrorCode, request: produce.ProduceRequest) -> list[produce.TopicResponse] | None:
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
