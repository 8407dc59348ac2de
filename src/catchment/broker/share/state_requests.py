"""What the share-state requests have in common: every partition is a command of its own, and all run concurrently."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from catchment.broker.turns import Turns, gather_in_turns

_NO_TOPIC: Final = UUID(int=0)


class _Partition(Protocol):
    @property
    def partition(self) -> int: ...


Asked = TypeVar("Asked", bound=_Partition)
AskedOut = TypeVar("AskedOut", covariant=True)
Result = TypeVar("Result")


class _Topic(Protocol[AskedOut]):
    @property
    def topic_id(self) -> UUID | None: ...

    @property
    def partitions(self) -> Sequence[AskedOut]: ...


class _Request(Protocol[AskedOut]):
    @property
    def group_id(self) -> str: ...

    @property
    def topics(self) -> "Sequence[_Topic[AskedOut]]": ...


async def by_topic(
    request: _Request[Asked], answer: Callable[[UUID, Asked], Coroutine[Any, Any, Result]]
) -> list[tuple[UUID | None, tuple[Result, ...]]]:
    """The results for each topic, in the order of the request; none for a request without a group."""
    topics = request.topics if request.group_id else ()
    # Brokers name a partition once; a duplicate gets the same result.
    once = {(topic.topic_id or _NO_TOPIC, one.partition): one for topic in topics for one in topic.partitions}
    answers = dict(zip(once, await gather_in_turns(answer(key[0], one) for key, one in once.items()), strict=True))
    turns = Turns()
    return [
        (
            topic.topic_id,
            tuple([answers[topic.topic_id or _NO_TOPIC, one.partition] async for one in turns(topic.partitions)]),
        )
        async for topic in turns(topics)
    ]
