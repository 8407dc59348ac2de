"""The loop of `catchment consume`: take records, print them, say that they are out, until an end is reached or asked for."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from confluent_kafka import KafkaError, Message

from catchment.cli.consume_sources import Source
from catchment.cli.wire import explain, require_reachable

_BATCH = 1000
_POLL_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# We were silent for too long, as somebody was slow to take our output, and the group went on without us: we join it again.
_PASSING = frozenset({KafkaError._MAX_POLL_EXCEEDED})


class Ends(NamedTuple):
    """When to stop reading; without any of them, a signal is the end."""

    max_messages: int | None
    until_end: bool
    idle_s: float | None


class Reader:
    """Writes what a source gives until one of the ends that were asked for is reached."""

    def __init__(self, topic: str, write: Callable[[Message], bytes], bootstrap_servers: str) -> None:
        self._topic = topic
        self._write = write
        self._bootstrap_servers = bootstrap_servers
        self._lost_at: float | None = None
        self._asked_to_stop = False
        self.records = 0

    def run(self, source: Source, ends: Ends, timeout_s: float) -> None:
        heard_at = time.monotonic()
        left = sys.maxsize if ends.max_messages is None else ends.max_messages
        while left > 0 and not self._asked_to_stop:
            records = self._records(source, source.take(min(_BATCH, left), _POLL_S))
            if records:
                self._print(records)
                source.printed(records)
                left -= len(records)
                heard_at = time.monotonic()
            if ends.until_end and source.is_at_end():
                return
            if ends.idle_s is not None and time.monotonic() - heard_at >= ends.idle_s:
                return
            self._check_connection(timeout_s)

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """The first signal asks for the end, after what is being printed; a second one does not wait for that."""
        before = {number: signal.signal(number, self._ask_to_stop) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def note_error(self, error: KafkaError) -> None:
        """What the client library reports beside the records."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._lost_at = self._lost_at or time.monotonic()

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        if self._asked_to_stop:
            raise KeyboardInterrupt
        self._asked_to_stop = True

    def _records(self, source: Source, messages: list[Message]) -> list[Message]:
        """The messages that are records; what the others tell is seen to."""
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                source.note_end(message.partition() or 0)
            elif not error.retriable() and error.code() not in _PASSING:
                partition = message.partition()
                place = "" if partition is None or partition < 0 else f" partition {partition}"
                raise explain(error, f"cannot read topic {self._topic}{place}")
        return records

    def _print(self, records: list[Message]) -> None:
        self._lost_at = None
        self.records += len(records)
        sys.stdout.buffer.write(b"".join([self._write(record) for record in records]))
        sys.stdout.buffer.flush()

    def _check_connection(self, timeout_s: float) -> None:
        """The client library tries for ever to find its brokers again; we give it as long as we were told to wait."""
        if self._lost_at is not None and time.monotonic() - self._lost_at >= timeout_s:
            require_reachable(self._bootstrap_servers)
            self._lost_at = None
