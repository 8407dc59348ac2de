"""confluent-kafka, the Python binding of librdkafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Message, Producer, TopicPartition
from tests.compat.clients.client import (
    EARLIEST,
    LATEST,
    MAX_REQUEST_BYTES,
    TIMEOUT_S,
    Client,
    Record,
    Stored,
    check_is_last,
)


class Librdkafka(Client):
    def write(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        timestamps_ms: Sequence[int] | None = None,
    ) -> None:
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": MAX_REQUEST_BYTES,
                "log_level": 0,
            }
        )
        for number, record in enumerate(records):
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=0,
                headers=list(record.headers),
                on_delivery=delivered,
                # 0 stands for now.
                timestamp=0 if timestamps_ms is None else timestamps_ms[number],
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert errors == []

    def read(self, topic: str, count: int, *, first_offset: int = 0) -> list[Stored]:
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, 0, first_offset)])
            found: list[Stored] = []
            while len(found) < count and (messages := consumer.consume(count - len(found), timeout=TIMEOUT_S)):
                found += map(_stored, messages)
        finally:
            consumer.close()
        check_is_last(topic, count, found)
        return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        consumer = self._consumer()
        try:
            if timestamp_ms in (EARLIEST, LATEST):
                start, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
                offset: int = start if timestamp_ms == EARLIEST else end
                return offset
            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=TIMEOUT_S)
            offset = found.offset
            return offset if offset >= 0 else None
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )


def _stored(message: Message) -> Stored:
    assert message.error() is None, message.error()
    offset = message.offset()
    assert offset is not None
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()
    record = Record(message.value(), message.key(), tuple((name, value) for name, value in headers))
    return Stored(record, offset, timestamp_ms, kind == TIMESTAMP_LOG_APPEND_TIME)
