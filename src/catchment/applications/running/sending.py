"""Records to the log, each acknowledged by all replicas, whatever happens to the broker meanwhile.

The producer is idempotent, so what it sends again after an answer was lost is in the log once. Only where it gives up, which
takes a broker that has forgotten it, are records sent anew by another one; the ledger is told of these before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from catchment.applications.running.events import ID_HEADER, Outgoing

_SETTINGS: Final = {
    "enable.idempotence": True,
    "acks": "all",
    # For ever: the broker may be away for as long as it likes.
    "message.timeout.ms": 0,
    "linger.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "queue.buffering.max.messages": 1_000_000,
    "log_level": 0,
}
_ROUND_S: Final = 0.1


class Sender:
    """Sends events, and knows which of them are not yet safe."""

    def __init__(self, servers: str, topic: str, resending: Callable[[Iterable[int]], None]) -> None:
        self._servers = servers
        self._topic = topic
        self._resending = resending
        self._unsafe: dict[int, Outgoing] = {}
        self._failed: list[int] = []
        self._sent = 0
        self._producer = self._new_producer()

    def send(self, records: Iterable[Outgoing]) -> None:
        """Hand records over; they are on their way when this returns, not yet safe."""
        for record in records:
            self._sent += 1
            self._unsafe[self._sent] = record
            self._produce(self._sent, record)
        self._producer.poll(0)
        self._resend_failed()

    def send_row(self, topic: str, key: bytes, value: bytes) -> None:
        """A row of a table: no event, and harmless if it is written twice."""
        self._producer.produce(topic, value, key)

    def finish(self, deadline_s: float, clock: Callable[[], float]) -> int:
        """Wait until everything is safe; how many are not."""
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
