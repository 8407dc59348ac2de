"""Handing out producer ids one by one from blocks that the controller has set aside durably."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator


class ProducerIds:
    def __init__(self, allocate_block: Callable[[], Awaitable[range]]) -> None:
        self._allocate_block = allocate_block
        self._block: Iterator[int] = iter(())
        self._allocating = asyncio.Lock()

    async def next(self) -> int:
        """An id that no producer has had before. Ids left of a block when the broker stops are never used."""
        producer_id = next(self._block, None)
        if producer_id is not None:
            return producer_id
        async with self._allocating:
            producer_id = next(self._block, None)
            while producer_id is None:
                self._block = iter(await self._allocate_block())
                producer_id = next(self._block, None)
            return producer_id
