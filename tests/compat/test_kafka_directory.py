"""A data directory moves between Apache Kafka and Catchment, whichever wrote it, and the records are the same."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat.clients.client import TIMEOUT_S, Record
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.java_tool import require_java

from catchment.bench.peers.kafka import KafkaServer
from catchment.testing.embedded import Broker

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TOPICS = {"plain": {}, "append-time": {"message.timestamp.type": "LogAppendTime"}}
_RECORDS_A_CODEC = 300


def _records(codec: str) -> list[Record]:
    # A megabyte and a half a topic: enough for the smallest segment that Kafka allows to be rolled.
    return [
        Record(f"{codec} {number} ".encode() + os.urandom(1000), str(number).encode(), (("codec", codec.encode()),))
        for number in range(_RECORDS_A_CODEC)
    ]


class _KafkaDirectory:
    def __init__(self, path: Path, records: dict[str, list[Record]]) -> None:
        self.path = path
        self.records = records


def _kafka(directory: Path) -> KafkaServer:
    return KafkaServer({"log.dirs": str(directory), "log.segment.bytes": str(1024 * 1024)})


@pytest.fixture(scope="module")
def kafka_directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, _KafkaDirectory]:
    """What Kafka wrote: as it is after a clean stop, and as it was before it, which is what a kill leaves behind."""
    require_java()
    root = tmp_path_factory.mktemp("kafka")
    written: dict[str, list[Record]] = {}
    with _kafka(root / "stopped") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        topics = [NewTopic(name, 1, 1, config=settings) for name, settings in _TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result(TIMEOUT_S)
        client = Librdkafka(kafka.bootstrap_servers)
        for topic in _TOPICS:
            written[topic] = []
            for codec in _CODECS:
                records = _records(codec)
                client.write(topic, records, codec=codec, idempotent=True)
                written[topic] += records
        os.kill(kafka.process.pid, signal.SIGSTOP)
        shutil.copytree(root / "stopped", root / "killed")
        os.kill(kafka.process.pid, signal.SIGCONT)
        kafka.process.stop()
    return {name: _KafkaDirectory(root / name, written) for name in ("stopped", "killed")}


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_what_kafka_wrote_opens_in_catchment(kafka_directories: dict[str, _KafkaDirectory], end: str) -> None:
    directory = kafka_directories[end]
    with Broker(directory.path) as broker:
        client = Librdkafka(broker.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert set(admin.list_topics(timeout=TIMEOUT_S).topics) == {*_TOPICS, "first-record"}
        for topic, records in directory.records.items():
            stored = client.read(topic, len(records))
            assert [each.record for each in stored] == records
            assert [each.offset for each in stored] == list(range(len(records)))
            assert all(each.is_log_append_time == (topic == "append-time") for each in stored)
            found = client.offset_at(topic, stored[700].timestamp_ms)
            assert found == next(each.offset for each in stored if each.timestamp_ms >= stored[700].timestamp_ms)
            client.write(topic, [Record(b"more")], idempotent=True)
            assert client.read(topic, 1, first_offset=len(records))[0].record == Record(b"more")
