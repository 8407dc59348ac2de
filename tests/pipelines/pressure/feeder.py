"""Events at a rate that can be changed while they come."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final, Self

import pyarrow

from catchment.client.cluster import Cluster
from catchment.client.producer import Producer

_TICK_S: Final = 0.1


class Feeder:
    """Numbers its events from nought, and writes them within a `with` block."""

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        self.rate = rate
        """Events a second."""
        self.sent = 0
        self._servers = servers
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Afterwards all that was counted as sent is there."""
        self._is_over.set()
        self._thread.join()

    def _feed(self) -> None:
        due = 0.0
        with Cluster(self._servers) as cluster, Producer(cluster) as producer:
            while not self._is_over.wait(_TICK_S):
                due += self.rate * _TICK_S
                numbers = range(self.sent, self.sent + int(due))
                due -= len(numbers)
                moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                values = [f'{{"id": {number}, "at": "{moment}"}}'.encode() for number in numbers]
                producer.write(self._topic, pyarrow.table({"value": pyarrow.array(values, pyarrow.binary())}))
                producer.flush()
                self.sent = numbers.stop
