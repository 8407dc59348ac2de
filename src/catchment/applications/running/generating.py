"""The process of a generator: events at a rate, in the ledger first and then in the log.

    python -m catchment.applications.running.generating emergency --servers … --topic reports --ledger … --rate 1000 --lateness 20

SIGTERM stops it cleanly: waiting records are sent at once, and all are acknowledged before it exits.

The producer is idempotent, so a retry after a lost response does not duplicate a record. Only after a fatal error, which takes a
broker that has lost the producer's state, does another producer send records again; the ledger notes these before.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from catchment.applications.catalogue import generator_of
from catchment.applications.running.events import ID_HEADER, Disturbed, Outgoing
from catchment.applications.running.ledger import Ledger
from catchment.pipelines.driving.supervision.stop_flag import StopFlag

_TICK_S: Final = 0.05
_MOST_BEHIND_S: Final = 1.0
FINISH_S: Final = 60.0
"""How long it may take after SIGTERM until every record is acknowledged."""
_SETTINGS: Final = {
    "enable.idempotence": True,
    "acks": "all",
    # No limit: the broker may be down for any time.
    "message.timeout.ms": 0,
    "linger.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "queue.buffering.max.messages": 1_000_000,
    "log_level": 0,
}
_ROUND_S: Final = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="generating")
    parser.add_argument("application")
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--lateness", type=float, required=True, help="How late events may be, in seconds.")
    parser.add_argument("--count", type=int, help="End after so many events.")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    stop = StopFlag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Ledger(options.ledger) as ledger:
        first = ledger.next_number
        generator = generator_of(options.application)
        sender = Sender(options.servers, options.topic, ledger.write_resent)
        for topic, rows in generator.tables.items():
            for key, row in rows.items():
                sender.send_row(topic, key.encode(), json.dumps(row).encode())
        disturbed = Disturbed(generator, Random(options.seed + first), first, lateness_s=options.lateness)
        _send_at_rate(disturbed, ledger, sender, options.rate, options.count, stop)
        sender.send(disturbed.due(None))
        unsafe = sender.finish(time.monotonic() + FINISH_S, time.monotonic)
    if unsafe:
        sys.stderr.write(f"{unsafe} records were not acknowledged within {FINISH_S:.0f} s\n")
    return 1 if unsafe else 0


def _send_at_rate(
    disturbed: Disturbed, ledger: Ledger, sender: Sender, rate: float, count: int | None, stop: StopFlag
) -> None:
    """Send as many events in each tick as the rate requires. If it is far behind, it catches up at most one second."""
    made, began_s = 0, time.monotonic()
    while not stop.is_set() and (count is None or made < count):
        behind = (time.monotonic() - began_s) * rate - made
        if behind > rate * _MOST_BEHIND_S:
            began_s += (behind / rate) - _MOST_BEHIND_S
        due = max(0, min(int(behind), int(rate * _MOST_BEHIND_S) + 1, sys.maxsize if count is None else count - made))
        now_s = time.time()
        ledger.write(disturbed.make(due, now_s))
        made += due
        sender.send(disturbed.due(now_s))
        stop.wait(_TICK_S)


class Sender:
    """Sends events, and tracks those that are not yet acknowledged."""

    def __init__(self, servers: str, topic: str, resending: Callable[[Iterable[int]], None]) -> None:
        self._servers = servers
        self._topic = topic
        self._resending = resending
        self._unsafe: dict[int, Outgoing] = {}
        self._failed: list[int] = []
        self._sent = 0
        self._producer = self._new_producer()

    def send(self, records: Iterable[Outgoing]) -> None:
        """Hand records to the producer, without waiting for their acknowledgements."""
        for record in records:
            self._sent += 1
            self._unsafe[self._sent] = record
            self._produce(self._sent, record)
        self._producer.poll(0)
        self._resend_failed()

    def send_row(self, topic: str, key: bytes, value: bytes) -> None:
        """Send a row of a table, which may be written twice without harm."""
        self._producer.produce(topic, value, key)

    def finish(self, deadline_s: float, clock: Callable[[], float]) -> int:
        """Wait until every record is acknowledged; the number of those that are not."""
        while self._unsafe and clock() < deadline_s:
            self._producer.flush(_ROUND_S)
            self._resend_failed()
        self._producer.flush(max(_ROUND_S, deadline_s - clock()))
        return len(self._unsafe)

    def _produce(self, token: int, record: Outgoing) -> None:
        headers: list[tuple[str, str | bytes | None]] = [(ID_HEADER, str(record.number))]

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                del self._unsafe[token]
            else:
                self._failed.append(token)

        while True:
            try:
                self._producer.produce(self._topic, record.value, record.key, on_delivery=delivered, headers=headers)
                return
            except BufferError:
                self._producer.poll(_ROUND_S)
            except KafkaException as error:
                if not error.args[0].fatal():
                    raise
                self._failed.append(token)
                return

    def _resend_failed(self) -> None:
        if not self._failed:
            return
        self._producer.purge()
        self._producer.poll(0)
        failed, self._failed = sorted(set(self._failed)), []
        self._resending([self._unsafe[token].number for token in failed])
        self._producer = self._new_producer()
        for token in failed:
            self._produce(token, self._unsafe[token])

    def _new_producer(self) -> Producer:
        settings: dict[str, Any] = {**_SETTINGS, "bootstrap.servers": self._servers}
        return Producer(settings | {"error_cb": lambda error: None})


if __name__ == "__main__":
    sys.exit(main())
