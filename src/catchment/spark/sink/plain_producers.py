"""Non-transactional producers, which a worker process reuses from task to task.

Brokers keep the state of every producer that has written to a partition for a day. A new producer for each task of a stream with ten
batches a second would leave millions.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from catchment.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    from catchment.client.producer import Producer

_MOST_PRODUCERS: Final = 8
_MOST_IDLE_S: Final = 600.0
"""One that has not been used for longer may be forgotten by the brokers one day, and is not worth its connections."""

_kept: OrderedDict[tuple[int, SinkOptions], tuple[Producer, float]] = OrderedDict()


@contextmanager
def plain_producer(options: SinkOptions, make: Callable[[], Producer]) -> Iterator[Producer]:
    """The producer of this process for a sink; all that is written with it is acknowledged at the end."""
    # A forked worker must not share its parent's sockets.
    key = (os.getpid(), options)
    producer, used_at_s = _kept.pop(key, (None, 0.0))
    if producer is not None and time.monotonic() - used_at_s > _MOST_IDLE_S:
        producer.close()
        producer = None
    producer = producer or make()
    try:
        yield producer
        producer.flush()
    except BaseException:
        # The outcome of what it has sent without an answer is unknown.
        producer.close()
        raise
    _kept[key] = (producer, time.monotonic())
    while len(_kept) > _MOST_PRODUCERS:
        _kept.popitem(last=False)[1][0].close()
