"""Changes that run to their end once begun, whoever stops waiting for them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_under_way: set[asyncio.Task[Any]] = set()
"""The event loop refers to its tasks weakly; this keeps them alive."""


def completes(
    change: Callable[_Parameters, Coroutine[Any, Any, _Result]],
) -> Callable[_Parameters, Coroutine[Any, Any, _Result]]:
    """Let the change finish though its caller is cancelled, as by a client that hangs up.

    Otherwise the store could have a change that the image never shows.
    """

    @wraps(change)
    async def run(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        task = asyncio.get_running_loop().create_task(change(*arguments, **keywords))
        _under_way.add(task)
        task.add_done_callback(_under_way.discard)
        return await asyncio.shield(task)

    return run
