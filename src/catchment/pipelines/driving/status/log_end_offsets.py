"""Log end offsets, read beside the queries: a query that waits for its store reports none, while its lag grows."""

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

_READ_S: Final = 2.0
Place = tuple[str, int]


class LogEndOffsets:
    """Reads on its own thread, within a `with` block. Offsets that cannot be read keep their last value."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._wanted: tuple[Place, ...] = ()
        self._known: Mapping[Place, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="log end offsets", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The thread may wait for a broker that is away: it ends with the process.
        self._is_over.set()

    def of(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """The offsets known now; from now on, those of these partitions are read."""
        self._wanted = tuple(places)
        return self._known

    def _work(self) -> None:
        with closing(self._connection.new_cluster()) as cluster:
            while not self._is_over.wait(_READ_S):
                self._read(cluster)

    def _read(self, cluster: Cluster) -> None:
        try:
            found = cluster.list_offsets(self._wanted, LATEST, read_committed=True)
        except ClientError as error:
            _logger.debug("the log end offsets are not known: %s", error)
        else:
            self._known = {place: at.offset for place, at in found.items()}
