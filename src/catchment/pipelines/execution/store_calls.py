"""Calls to stores that are under way, so that others can tell a store that does not answer from a query that computes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StoreCalls:
    """Those of all queries of a run. Each query makes one at a time, on its own thread."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    @contextmanager
    def under_way(self, query: str) -> Iterator[None]:
        """Around a call."""
        self._since_s[query] = time.monotonic()
        try:
            yield
        finally:
            del self._since_s[query]

    def lasts_s(self, query: str) -> float:
        """How long the query's call has been under way; nought if there is none."""
        since_s = self._since_s.get(query)
        return 0.0 if since_s is None else time.monotonic() - since_s
