"""Where a query stands, committed to a consumer group, so that its lag shows wherever people look for lag.

Spark's checkpoint alone decides where a query goes on; nobody reads these commits back. So they are made on a thread beside
the query, a newer one takes the place of one that waits, and one that fails is told in the log and does no harm.
"""

from __future__ import annotations

import logging
from threading import Condition, Thread
from typing import Final

from catchment.client.errors import ClientError
from catchment.spark.positions import Offsets
from catchment.spark.source_options import SourceOptions

_log: Final = logging.getLogger("catchment.spark")


class GroupCommits:
    """Commits for one run of a query. Without a group's id in the options, the group is named after the query once known."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._group = options.group_id
        self._changed = Condition()
        self._due: Offsets | None = None
        self._last: Offsets | None = None
        self._thread: Thread | None = None
        self._is_closed = False
        self._has_complained = False

    def name_query(self, query: str) -> None:
        """The query has this name, or this id if it has no name."""
        if self._options.group_id is None:
            with self._changed:
                self._group = f"{self._options.group_prefix}-{query}"
                self._changed.notify_all()

    def finished(self, end: Offsets) -> None:
        """Everything before `end` has been processed."""
        with self._changed:
            if end == self._last or not end:
                return
            self._due = self._last = end
            self._changed.notify_all()
            if self._thread is None:
                self._thread = Thread(target=self._work, name="catchment-commits", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing is left to commit; False if that takes too long."""
        with self._changed:
            return self._changed.wait_for(lambda: self._due is None, timeout_s)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        # A cluster belongs to one thread; the planner's is not ours to use.
        cluster = None
        while (wanted := self._next()) is not None:
            group, offsets = wanted
            try:
                cluster = cluster or self._options.connection.new_cluster()
                cluster.commit(group, offsets)
            except ClientError as error:
                self._complain(group, error)
            with self._changed:
                if self._due is offsets:
                    self._due = None
                self._changed.notify_all()
        if cluster is not None:
            cluster.close()

    def _next(self) -> tuple[str, Offsets] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or (self._due is not None and self._group is not None))
            if self._is_closed or self._due is None or self._group is None:
                return None
            return self._group, self._due

    def _complain(self, group: str, error: ClientError) -> None:
        if not self._has_complained:
            _log.warning("the query goes on, but its offsets are not committed to group %s: %s", group, error)
            self._has_complained = True
