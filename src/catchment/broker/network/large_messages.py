"""Messages that are too large to be decoded or encoded on the event loop.

Either costs microseconds for each element in Python, so a request with tens of thousands of partitions, or its response, would
block every other client. A thread does it instead: the interpreter switches to the event loop every few milliseconds.
One thread is enough: more threads would only take time from the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, ParamSpec, TypeVar

from catchment.protocol.message_fields import message_fields

LARGE_FRAME_BYTES: Final = 16 * 1024
"""A smaller request is decoded in a few milliseconds, whatever it holds."""
LARGE_RESPONSE_ELEMENTS: Final = 1000
"""Array elements in a response, over all its arrays: encoding one takes about ten microseconds."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class CodecThread:
    """Runs decoders and encoders one after the other, on a thread that starts with the first of them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="catchment-codec")

    async def run(
        self, work: Callable[_Parameters, _Result], *arguments: _Parameters.args, **keywords: _Parameters.kwargs
    ) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*arguments, **keywords))

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def is_large(message: Any) -> bool:
    """Whether the message has more array elements than the loop should encode."""
    left = LARGE_RESPONSE_ELEMENTS
    unseen = [message]
    while unseen:
        entity = unseen.pop()
        message_class: Any = type(entity)
        for name, has_arrays in _arrays(message_class):
            elements = getattr(entity, name)
            if elements:
                left -= len(elements)
                if left < 0:
                    return True
                if has_arrays:
                    unseen += elements
    return False


@cache
def _arrays(message_class: Any) -> tuple[tuple[str, bool], ...]:
    """The array fields of a class, and whether their elements have arrays themselves."""
    return tuple(
        [
            (one.name, one.struct is not None and bool(_arrays(one.struct)))
            for one in message_fields(message_class)
            if one.is_array
        ]
    )
