"""Wait until something is so, with a deadline. A test waits by these and by nothing else, so it is as fast as what it waits for."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 150.0
"""Far above what a busy machine needs: it tells a test that will never end from one that is slow."""

Found = TypeVar("Found")
Otherwise = str | Callable[[], object]
"""What to say when it never comes to be; a function is asked when the time is up."""


def wait_until(
    holds: Callable[[], Found | None], otherwise: Otherwise = "", timeout_s: float = DEADLINE_S, pause_s: float = 0.005
) -> Found:
    """What `holds` returns, once that is true."""
    deadline_s = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline_s, _told(otherwise)
        time.sleep(pause_s)
    return found


async def until(
    holds: Callable[[], Found | None], otherwise: Otherwise = "", timeout_s: float = DEADLINE_S, pause_s: float = 0.001
) -> Found:
    """The same in an event loop, which goes on meanwhile."""
    deadline_s = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline_s, _told(otherwise)
        await asyncio.sleep(pause_s)
    return found


def _told(otherwise: Otherwise) -> object:
    return (otherwise() if callable(otherwise) else otherwise) or "it never came to be"
