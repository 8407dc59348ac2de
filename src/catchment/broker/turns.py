"""Long lists are gone through in turns, so that other clients are served in between."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

ITEMS_A_TURN: Final = 200
"""Items cost up to a few dozen microseconds each: a turn is a few milliseconds."""
CHANGES_AT_ONCE: Final = 20
"""Topics that a request creates, grows or deletes at the same time: each costs some milliseconds, and they share a sync."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Turns:
    """Counts the items of one request, over all its lists, and lets the event loop go on after every turn of them.

    A short request never waits. The cluster may change from one turn to the next: what must be of one moment is taken before.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ITEMS_A_TURN

    async def __call__(self, items: Iterable[_Item]) -> AsyncIterator[_Item]:
        for item in items:
            self._left -= 1
            if self._left < 0:
                self._left = ITEMS_A_TURN
                await asyncio.sleep(0)
            yield item


async def in_turns(items: Sequence[_Item]) -> AsyncIterator[Sequence[_Item]]:
    """The items of each turn; the event loop goes on in between."""
    for start in range(0, len(items), ITEMS_A_TURN):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + ITEMS_A_TURN]


async def gather_in_turns(
    coroutines: Iterable[Coroutine[Any, Any, _Result]], at_once: int = ITEMS_A_TURN
) -> list[_Result]:
    """As `asyncio.gather`, but at most so many run at the same time: each is a task, and clients choose how many there are."""
    results: list[_Result] = []
    following = iter(coroutines)
    while group := list(islice(following, at_once)):
        results += await asyncio.gather(*group)
    return results
