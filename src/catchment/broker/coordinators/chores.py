"""What a coordinator does again and again, whatever becomes of it once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

_logger = logging.getLogger(__name__)


async def every(interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work in intervals until cancelled; a failure is logged, and the next time is as good as any."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await work()
        except Exception:
            _logger.exception("a chore of a coordinator failed, and is done again in %d ms", interval_ms)
