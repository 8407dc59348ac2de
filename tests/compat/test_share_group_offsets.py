"""Kafka's own command for share groups sets, describes and deletes their offsets."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.handlers.wire import produce
from tests.compat.clients.client import TIMEOUT_S, Record
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.java_tool import java_tool, require_java

from catchment.bench.peers.kafka import KafkaServer
from catchment.testing.embedded import Broker

_RECORDS = 10
_RESET = ("--reset-offsets", "--topic", "flow", "--execute")
_DESCRIBE = ("--describe", "--offsets")


def share_groups(bootstrap_servers: str, *arguments: str) -> list[list[str]]:
    """The rows that the command prints, without its heading."""
    printed = java_tool(
        "ShareGroupCommand",
        "--bootstrap-server",
        bootstrap_servers,
        "--group",
        "readers",
        *arguments,
        package="org.apache.kafka.tools.consumer.group",
    ).decode()
    rows = [line.split() for line in printed.splitlines() if line.strip()]
    return sorted(rows[1:]) if len(rows) > 1 else rows


def test_offsets_are_set_described_and_deleted() -> None:
    require_java()
    with Broker() as broker:
        servers = broker.bootstrap_servers
        broker.create_topic("flow", 2)
        produce(broker, "flow", [b"x"] * _RECORDS)
        assert share_groups(servers, *_RESET, "--to-earliest") == [
            ["readers", "flow", "0", "0"],
            ["readers", "flow", "1", "0"],
        ]
        assert share_groups(servers, *_DESCRIBE) == [
            ["readers", "flow", "0", "0", str(_RECORDS)],
            ["readers", "flow", "1", "0", "0"],
        ]
        share_groups(servers, *_RESET, "--to-latest")
        broker.restart()
        assert share_groups(servers, *_DESCRIBE) == [
            ["readers", "flow", "0", str(_RECORDS), "0"],
            ["readers", "flow", "1", "0", "0"],
        ]
        assert share_groups(servers, "--delete-offsets", "--topic", "flow") == [["flow", "Successful"]]
        (nothing,) = share_groups(servers, *_DESCRIBE)
        assert " ".join(nothing) == "Share group 'readers' has no offset information."


def test_what_kafka_keeps_of_a_share_group_is_read_from_its_directory(tmp_path: Path) -> None:
    require_java()
    with KafkaServer({"log.dirs": str(tmp_path / "data")}) as server:
        servers = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("flow", 2, 1)])["flow"].result(TIMEOUT_S)
        client = Librdkafka(servers)
        client.write("flow", [Record(b"x")] * _RECORDS)
        share_groups(servers, *_RESET, "--to-latest")
        client.write("flow", [Record(b"x")])
        by_kafka = share_groups(servers, *_DESCRIBE)
        server.process.stop()
    assert sorted(int(row[-1]) for row in by_kafka) == [0, 1]
    with Broker(tmp_path / "data") as broker:
        assert share_groups(broker.bootstrap_servers, *_DESCRIBE) == by_kafka
