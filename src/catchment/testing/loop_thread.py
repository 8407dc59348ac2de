"""An event loop on its own thread, which runs coroutines of other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

import uvloop

Result = TypeVar("Result")


class LoopThread:
    """A daemon thread: a forgotten broker does not keep the interpreter from exiting."""

    def __init__(self, name: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result], timeout_s: float) -> Result:
        """Run a coroutine on the loop, and return its result or raise its error."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()

    def end(self, timeout_s: float) -> None:
        """Cancel all tasks of the loop, and wait for the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"The thread {self._thread.name} did not end within {timeout_s:.0f} seconds.")

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
