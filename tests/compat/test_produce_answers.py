"""The same bad batches, to Apache Kafka and to Catchment: the same answers, field by field.

Messages differ in their words, and ours come with more errors than Kafka's: clients show them and do nothing else with them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode
from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32
from tests.broker.handlers.log_requests import milliseconds
from tests.broker.handlers.wire import Listening, Wire
from tests.compat.java_tool import require_java
from tests.waiting import wait_until

from catchment.bench.peers.kafka import KafkaServer
from catchment.protocol.adapters.produce import TopicProduceData
from catchment.protocol.batch import seal
from catchment.protocol.compression import Compression
from catchment.protocol.records import encode_batch, numbered
from catchment.testing.embedded import Broker

NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "300"},
    "unpacked": {"max.message.bytes": "300", "compression.type": "uncompressed"},
    "timely": {"message.timestamp.before.max.ms": "1000"},
}


def made(*keys: bytes | None, value: bytes = b"v", timestamp_ms: int = NOW_MS, **fields: Any) -> bytes:
    return encode_batch(numbered((key, value) for key in keys), base_timestamp_ms=timestamp_ms, **fields)


def patched(position: int, layout: str, value: int, *, is_sealed: bool = True) -> bytes:
    data = bytearray(made(b"k", b"k"))
    struct.pack_into(layout, data, position, value)
    if is_sealed:
        seal(data)
    return bytes(data)


CASES: dict[str, tuple[str, bytes | None, int]] = {
    "a good batch": ("plain", made(b"k", None), -1),
    "an unknown topic": ("missing", made(b"k"), -1),
    "an unknown partition": ("plain 7", made(b"k"), -1),
    "odd acks": ("plain", made(b"k"), 2),
    "a wrong CRC": ("plain", patched(35, ">q", 1, is_sealed=False), -1),
    "more records than offsets": ("plain", patched(57, ">i", 3), -1),
    "a control batch": ("plain", patched(21, ">h", 0x20), -1),
    "any sequence of a new producer": ("plain", made(b"k", producer_id=77, producer_epoch=3, base_sequence=5), -1),
    "a sequence out of order": ("plain", made(b"k", producer_id=77, producer_epoch=3, base_sequence=9), -1),
    "an old epoch": ("plain", made(b"k", producer_id=77, producer_epoch=2, base_sequence=6), -1),
    "keys missing": ("compacted", made(b"k", None, b"k", None), -1),
    "keys missing, packed": ("compacted", made(None, b"k", compression=Compression.GZIP), -1),
    "no key missing": ("compacted", made(b"k"), -1),
    "its own time": ("stamped", made(b"k"), -1),
    "too large": ("small", made(b"k", value=b"v" * 400), -1),
    "too large once unpacked": ("unpacked", made(b"k", value=b"v" * 4000, compression=Compression.ZSTD), -1),
    "too late": ("plain", made(b"k", timestamp_ms=NOW_MS + 2 * HOUR_MS), -1),
    "too early": ("timely", made(b"k", b"k", timestamp_ms=NOW_MS - HOUR_MS), -1),
    "an internal topic": ("__consumer_offsets", made(b"k"), -1),
}


def _create_topics(server: Listening, version: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    made_topics = admin.create_topics(
        [NewTopic(f"{name}-{version}", 1, 1, config=config) for name, config in TOPICS.items()]
    )
    for future in made_topics.values():
        future.result(30)


def _ask(wire: Wire, topic: str, records: bytes | None, acks: int, version: int) -> object:
    name, _, number = topic.partition(" ")
    name = f"{name}-{version}" if name in TOPICS else name
    data = PartitionProduceData(index=i32(int(number or 0)), records=None if records is None else Records(records))
    request = ProduceRequest(
        acks=i16(acks),
        timeout=milliseconds(30_000),
        topic_data=(TopicProduceData(name=TopicName(name), partition_data=(data,), topic_id=None),),
    )

    def answered() -> Any:
        found = wire.ask(request, version).responses[0].partition_responses[0]
        # Kafka's partitions have no leader for a moment after their creation.
        return None if found.error_code is ErrorCode.not_leader_or_follower else found

    answer = wait_until(answered)
    is_of_time = answer.error_code is ErrorCode.invalid_timestamp
    return (
        answer.error_code.name,
        ("base", answer.base_offset),
        ("stamped", answer.log_append_time is not None),
        ("start", answer.log_start_offset),
        # The broker does not look into a batch to tell which of its records are too early or too late.
        ("records", [] if is_of_time else [error.batch_index for error in answer.record_errors]),
        ("leader", answer.current_leader.leader_id),
    )


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    require_java()
    with KafkaServer() as server:
        yield server


@pytest.mark.parametrize("version", [3, 8, 12])
def test_the_same_batches_get_the_same_responses(kafka: KafkaServer, version: int) -> None:
    with Broker() as broker:
        for server in (kafka, broker):
            _create_topics(server, version)
        with Wire(kafka) as theirs, Wire(broker) as ours:
            for case, (topic, records, acks) in CASES.items():
                expected = _ask(theirs, topic, records, acks, version)
                assert _ask(ours, topic, records, acks, version) == expected, case
