"""aiokafka, each call in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
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

_LOG_APPEND_TIME = 1


class AioKafka(Client):
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
        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap_servers,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                max_request_size=MAX_REQUEST_BYTES,
                linger_ms=20,
            )
            async with producer:
                deliveries = []
                for number, record in enumerate(records):
                    deliveries.append(
                        await producer.send(
                            topic,
                            record.value,
                            record.key,
                            partition=0,
                            timestamp_ms=None if timestamps_ms is None else timestamps_ms[number],
                            headers=list(record.headers),
                        )
                    )
                await asyncio.gather(*deliveries)

        asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))

    def read(self, topic: str, count: int, *, first_offset: int = 0) -> list[Stored]:
        async def run() -> list[Stored]:
            partition = TopicPartition(topic, 0)
            found: list[Stored] = []
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap_servers) as consumer:
                consumer.assign([partition])
                consumer.seek(partition, first_offset)
                while len(found) < count:
                    fetched = await consumer.getmany(partition, timeout_ms=1000, max_records=count - len(found))
                    found += [_stored(message) for message in fetched.get(partition, ())]
            return found

        found = asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))
        check_is_last(topic, count, found)
        return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        async def run() -> int | None:
            partition = TopicPartition(topic, 0)
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap_servers) as consumer:
                if timestamp_ms in (EARLIEST, LATEST):
                    ask = consumer.beginning_offsets if timestamp_ms == EARLIEST else consumer.end_offsets
                    offset: int = (await ask([partition]))[partition]
                    return offset
                found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
                return None if found is None else found.offset

        return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def _stored(message: Any) -> Stored:
    record = Record(message.value, message.key, tuple((name, value) for name, value in message.headers))
    return Stored(record, message.offset, message.timestamp, message.timestamp_type == _LOG_APPEND_TIME)
