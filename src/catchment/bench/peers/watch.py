"""The most memory that a server held while something went on."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from catchment.bench.peers.process import ServerProcess

_INTERVAL_SECONDS = 0.2


class PeakMemory:
    """Looks at the resident memory five times a second, which costs next to nothing, until the block ends."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def _watch(self) -> None:
        while not self._done.wait(_INTERVAL_SECONDS):
            self._look()

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self._process.resident_bytes())

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._look()
