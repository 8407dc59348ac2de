"""kafka-python; an `api_version` makes it use the requests for a broker of that version."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

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

with warnings.catch_warnings():
    # Its way to read schemas is deprecated in Python, which is not our warning.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource as KafkaConfigResource
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

__all__ = [
    "KafkaConfigResource",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KafkaPython",
    "OffsetAndMetadata",
    "TopicPartition",
    "kafka_admin",
]

_LOG_APPEND_TIME = 1


class KafkaPython(Client):
    writes_null_headers = False

    def __init__(self, bootstrap_servers: str, api_version: tuple[int, ...] | None = None) -> None:
        super().__init__(bootstrap_servers)
        self._options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "api_version": api_version}

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
        producer = KafkaProducer(
            **self._options,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=MAX_REQUEST_BYTES,
            linger_ms=20,
        )
        with closing(producer):
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=None if timestamps_ms is None else timestamps_ms[number],
                )
                for number, record in enumerate(records)
            ]
            producer.flush(TIMEOUT_S)
            for future in futures:
                future.get(TIMEOUT_S)

    def read(self, topic: str, count: int, *, first_offset: int = 0) -> list[Stored]:
        partition = TopicPartition(topic, 0)
        found: list[Stored] = []
        with self._consumer() as consumer:
            consumer.assign([partition])
            consumer.seek(partition, first_offset)
            while len(found) < count and (fetched := consumer.poll(TIMEOUT_S * 1000, max_records=count - len(found))):
                found += map(_stored, fetched[partition])
        check_is_last(topic, count, found)
        return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        partition = TopicPartition(topic, 0)
        with self._consumer() as consumer:
            if timestamp_ms in (EARLIEST, LATEST):
                ask = consumer.beginning_offsets if timestamp_ms == EARLIEST else consumer.end_offsets
                offset: int = ask([partition])[partition]
                return offset
            found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
            return None if found is None else found.offset

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        with closing(KafkaConsumer(**self._options)) as consumer:
            yield consumer


def _stored(message: Any) -> Stored:
    record = Record(message.value, message.key, tuple((name, value) for name, value in message.headers))
    return Stored(record, message.offset, message.timestamp, message.timestamp_type == _LOG_APPEND_TIME)


@contextmanager
def kafka_admin(bootstrap_servers: str) -> Iterator[Any]:
    """The admin client, closed at the end."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        yield admin
