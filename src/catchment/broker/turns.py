"""Process long lists in turns of the event loop, so that other clients are served in between."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

ITEMS_PER_TURN: Final = 200
"""An item takes up to a few dozen microseconds, so a turn takes a few milliseconds."""
MAX_CONCURRENT_CHANGES: Final = 20
"""Topics that one request creates, grows or deletes at the same time: each takes some milliseconds, and they share a sync."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Turns:
    """Iterates over the lists of one request, and yields to the event loop after every turn of items, over all lists.

    A short request never yields. The cluster may change from one turn to the next, so read a consistent state before the first.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ITEMS_PER_TURN

    async def __call__(self, items: Iterable[_Item]) -> AsyncIterator[_Item]:
        for item in items:
            self._left -= 1
            if self._left < 0:
                self._left = ITEMS_PER_TURN
                await asyncio.sleep(0)
            yield item


async def in_turns(items: Sequence[_Item]) -> AsyncIterator[Sequence[_Item]]:
    """The items of each turn; yields to the event loop in between."""
    for start in range(0, len(items), ITEMS_PER_TURN):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + ITEMS_PER_TURN]


async def gather_in_turns(
    coroutines: Iterable[Coroutine[Any, Any, _Result]], at_once: int = ITEMS_PER_TURN
) -> list[_Result]:
    """Like `asyncio.gather`, but at most `at_once` run concurrently: each is a task, and clients choose their number."""
    results: list[_Result] = []
    following = iter(coroutines)
    while group := list(islice(following, at_once)):
        results += await asyncio.gather(*group)
    return results
