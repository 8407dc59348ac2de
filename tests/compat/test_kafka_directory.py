"""A data directory moves between Apache Kafka and Catchment, whichever wrote it, and the records are the same."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tests.compat.clients.client import TIMEOUT_S, Record
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.java_tool import require_java

from catchment.bench.peers.kafka import KafkaServer
from catchment.bench.peers.process import ServerProcess
from catchment.cluster.local_store import DIRECTORY_NAME
from catchment.testing.embedded import Broker

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TOPICS: Mapping[str, Mapping[str, str]] = {"plain": {}, "append-time": {"message.timestamp.type": "LogAppendTime"}}
_RECORDS_A_CODEC = 300


class _Written(NamedTuple):
    """What Kafka has left behind, and how to bring it back."""

    stopped: Path
    killed: Path
    records: Mapping[str, list[Record]]
    described: Mapping[str, object]
    directory: Path
    command: list[str]
    bootstrap_servers: str


def _records(codec: str) -> list[Record]:
    """A megabyte and a half in all codecs: more than the smallest segment that Kafka allows."""
    return [
        Record(f"{codec} {number} ".encode() + os.urandom(1000), str(number).encode(), (("codec", codec.encode()),))
        for number in range(_RECORDS_A_CODEC)
    ]


def _fill(bootstrap_servers: str) -> dict[str, list[Record]]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [NewTopic(name, 1, 1, config=dict(settings)) for name, settings in _TOPICS.items()]
    for created in admin.create_topics(topics).values():
        created.result(TIMEOUT_S)
    client = Librdkafka(bootstrap_servers)
    written: dict[str, list[Record]] = {topic: [] for topic in _TOPICS}
    for topic, records in written.items():
        for codec in _CODECS:
            more = _records(codec)
            client.write(topic, more, codec=codec, idempotent=True)
            records += more
    return written


def _describe(bootstrap_servers: str, topic: str) -> dict[str, object]:
    """A topic's settings, with what an admin client says of each."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {
        name: (entry.value, entry.is_read_only, entry.is_sensitive, sorted(entry.synonyms))
        for name, entry in entries.items()
    }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Written]:
    """Kafka's directory after a clean stop, and frozen before it, which is what a kill leaves behind."""
    require_java()
    root = tmp_path_factory.mktemp("kafka")
    directory, stopped, killed = root / "data", root / "stopped", root / "killed"
    with KafkaServer({"log.dirs": str(directory), "log.segment.bytes": str(1024 * 1024)}) as server:
        records = _fill(server.bootstrap_servers)
        described = _describe(server.bootstrap_servers, "plain")
        pid = server.process.pid
        command = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        os.kill(pid, signal.SIGSTOP)
        shutil.copytree(directory, killed)
        os.kill(pid, signal.SIGCONT)
        server.process.stop()
        shutil.copytree(directory, stopped)
        yield _Written(stopped, killed, records, described, directory, command, server.bootstrap_servers)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_what_kafka_wrote_opens_in_catchment(kafka: _Written, tmp_path: Path, end: str) -> None:
    directory = tmp_path / "data"
    shutil.copytree(kafka.stopped if end == "stopped" else kafka.killed, directory)
    with Broker(directory) as broker:
        client = Librdkafka(broker.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert set(admin.list_topics(timeout=TIMEOUT_S).topics) == {*_TOPICS, "first-record"}
        for topic, records in kafka.records.items():
            stored = client.read(topic, len(records))
            assert [each.record for each in stored] == records
            assert [each.offset for each in stored] == list(range(len(records)))
            assert all(each.is_log_append_time == (topic == "append-time") for each in stored)
            wanted_ms = stored[700].timestamp_ms
            assert client.offset_at(topic, wanted_ms) == next(
                each.offset for each in stored if each.timestamp_ms >= wanted_ms
            )
            client.write(topic, [Record(b"more")], idempotent=True)
            assert client.read(topic, 1, first_offset=len(records))[0].record == Record(b"more")


def test_kafka_continues_where_catchment_stopped(kafka: _Written, tmp_path: Path) -> None:
    by_catchment = [Record(b"%d by Catchment" % number, b"key") for number in range(100)]
    by_kafka = Record(b"by Kafka", b"key")
    with Broker(kafka.directory) as broker:
        for topic in _TOPICS:
            Librdkafka(broker.bootstrap_servers).write(topic, by_catchment, codec="lz4", idempotent=True)
    # Kafka refuses to start over a directory that is no partition, so what Catchment keeps for itself goes first.
    shutil.rmtree(kafka.directory / DIRECTORY_NAME)
    server = ServerProcess(kafka.command, tmp_path / "kafka.log")
    try:
        client = Librdkafka(kafka.bootstrap_servers)
        for topic, records in kafka.records.items():
            client.write(topic, [by_kafka])
            expected = [*records, *by_catchment, by_kafka]
            assert [each.record for each in client.read(topic, len(expected))] == expected
    finally:
        server.stop()


def test_a_topics_settings_are_described_as_by_kafka(kafka: _Written, tmp_path: Path) -> None:
    with Broker(tmp_path / "data", settings={"log.segment.bytes": 1024 * 1024}) as broker:
        broker.create_topic("plain")
        described = _describe(broker.bootstrap_servers, "plain")
    ours_alone = {name for name in described if name.startswith("catchment.")}
    assert set(described) - ours_alone == set(kafka.described)
    different = {name for name, described_by_kafka in kafka.described.items() if described[name] != described_by_kafka}
    # Kafka keeps min.insync.replicas as a dynamic default of its cluster; there is no second tier to retain from.
    assert different <= {"min.insync.replicas", "local.retention.bytes", "local.retention.ms"}
