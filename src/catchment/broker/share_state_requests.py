"""What the requests about share state have in common: each partition is asked about for itself, all of them at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar
from uuid import UUID

_NO_TOPIC: Final = UUID(int=0)

Asked = TypeVar("Asked")
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
    request: _Request[Asked], answer: Callable[[UUID, Asked], Awaitable[Result]]
) -> list[tuple[UUID | None, tuple[Result, ...]]]:
    """The answers for each topic, in the order in which they were asked for; none for a request that names no group."""
    topics = request.topics if request.group_id else ()
    answers = iter(
        await asyncio.gather(
            *[answer(topic.topic_id or _NO_TOPIC, asked) for topic in topics for asked in topic.partitions]
        )
    )
    return [(topic.topic_id, tuple([next(answers) for _ in topic.partitions])) for topic in topics]
