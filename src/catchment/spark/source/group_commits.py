"""Commit a query's offsets to a consumer group, so that its lag shows in every tool that reports lag.

Spark's checkpoint alone decides where a query resumes; these commits are never read back. So a thread beside the query makes them,
a newer commit replaces one that waits, and a failed one is logged and retried.
"""

from __future__ import annotations

import logging
from threading import Condition, Thread
from typing import Final

from catchment.spark.source.options import SourceOptions
from catchment.spark.source.positions import Offsets

_log: Final = logging.getLogger("catchment.spark")
_PAUSE_S: Final = 1.0
"""Between two attempts at a commit that fails."""
_CLOSE_S: Final = 2.0
"""How long the end of a run may wait for the commits that are due then."""


class GroupCommits:
    """Commits for one run of a query, to the group of the options, or to one that is named after the query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._changed = Condition()
        self._due: dict[str, Offsets] = {}
        self._last: dict[str, Offsets] = {}
        self._thread: Thread | None = None
        self._is_closed = False
        self._has_complained = False

    def finished(self, end: Offsets, query: str | None) -> None:
        """The query of this name has processed everything before `end`. Without a name only kafka.group.id is committed to."""
        group = self._options.group_id or (f"{self._options.group_prefix}-{query}" if query else None)
        with self._changed:
            if group is None or not end or self._last.get(group) == end:
                return
            self._due[group] = self._last[group] = end
            self._changed.notify_all()
            if self._thread is None:
                self._thread = Thread(target=self._work, name="catchment-commits", daemon=True)
                self._thread.start()

    def wait_for(self, end: Offsets, timeout_s: float) -> bool:
        """Wait until `end` is committed; False if that takes too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._due and end in self._last.values(), timeout_s)

    def close(self) -> None:
        """Try pending commits once more, for at most `_CLOSE_S`."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_S)

    def _work(self) -> None:
        # A cluster is not thread-safe: this thread needs its own.
        cluster = None
        is_last = False
        while not is_last and (due := self._next()):
            is_last = self._is_closed
            for group, offsets in due.items():
                try:
                    cluster = cluster or self._options.connection.new_cluster()
                    cluster.commit(group, offsets)
                except Exception as error:  # Whatever it is, the next attempt may succeed.
                    self._complain(group, error)
                else:
                    self._done(group, offsets)
            self._pause_if_any_failed(due)
        if cluster is not None:
            cluster.close()

    def _next(self) -> dict[str, Offsets]:
        """Wait for pending commits; empty if the run is closed without any."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or bool(self._due))
            return dict(self._due)

    def _done(self, group: str, offsets: Offsets) -> None:
        with self._changed:
            if self._due.get(group) is offsets:
                del self._due[group]
            self._changed.notify_all()

    def _pause_if_any_failed(self, tried: dict[str, Offsets]) -> None:
        with self._changed:
            if any(self._due.get(group) is offsets for group, offsets in tried.items()):
                self._changed.wait_for(lambda: self._is_closed, _PAUSE_S)

    def _complain(self, group: str, error: Exception) -> None:
        if not self._has_complained:
            _log.warning("the query goes on, but its offsets are not committed to group %s: %s", group, error)
            self._has_complained = True
