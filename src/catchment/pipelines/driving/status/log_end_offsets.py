"""Where topics end now, asked beside the queries: one that waits for its store does not ask, while its lag grows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import closing
from types import TracebackType
from typing import Final, Self

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError
from catchment.client.offsets import LATEST
from catchment.spark.options.connection import Connection

_logger = logging.getLogger(__name__)

_ASK_S: Final = 2.0
Place = tuple[str, int]


class LogEndOffsets:
    """Asks on a thread of its own, within a `with` block. What cannot be asked keeps its last answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._wanted: tuple[Place, ...] = ()
        self._known: Mapping[Place, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="topic ends", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A call that waits for a broker which is away is not waited for: the thread ends with the process.
        self._is_over.set()

    def of(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """What is known now; these are asked for from now on."""
        self._wanted = tuple(places)
        return self._known

    def _ask(self) -> None:
        with closing(self._connection.new_cluster()) as cluster:
            while not self._is_over.wait(_ASK_S):
                self._ask_once(cluster)

    def _ask_once(self, cluster: Cluster) -> None:
        try:
            found = cluster.list_offsets(self._wanted, LATEST, read_committed=True)
        except ClientError as error:
            _logger.debug("the ends of topics are not known: %s", error)
        else:
            self._known = {place: at.offset for place, at in found.items()}
