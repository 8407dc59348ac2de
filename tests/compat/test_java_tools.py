"""Kafka's own command-line tools administer a Catchment broker."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compat.clients.client import Record
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.java_tool import java_tool

from catchment.testing.embedded import Broker

Tool = Callable[..., str]


@pytest.fixture
def tool(broker: Broker) -> Tool:
    def run(name: str, *arguments: str, package: str = "org.apache.kafka.tools") -> str:
        return java_tool(name, *arguments, "--bootstrap-server", broker.bootstrap_servers, package=package).decode()

    return run


def test_topics_are_created_grown_described_and_deleted(tool: Tool) -> None:
    name = ("--topic", "java-topic")
    assert "Created topic" in tool(
        "TopicCommand", "--create", *name, "--partitions", "2", "--config", "retention.ms=1000"
    )
    tool("TopicCommand", "--alter", *name, "--partitions", "3")
    described = tool("TopicCommand", "--describe", *name)
    assert re.search(
        r"TopicId: \S{22}\s+PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: retention.ms=1000", described
    )
    assert re.findall(r"Partition: (\d)\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described) == ["0", "1", "2"]
    tool("TopicCommand", "--delete", *name)
    assert "java-topic" not in tool("TopicCommand", "--list").splitlines()


def test_configs_of_topics_and_brokers_are_altered_and_described(tool: Tool, make_topic: Callable[..., str]) -> None:
    topic = make_topic()

    def configure(*arguments: str) -> str:
        return tool("ConfigCommand", *arguments, package="kafka.admin")

    configure("--alter", "--topic", topic, "--add-config", "max.message.bytes=2000,retention.ms=1000")
    configure("--alter", "--topic", topic, "--delete-config", "retention.ms")
    described = configure("--describe", "--topic", topic)
    assert "max.message.bytes=2000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000" in described
    assert "retention.ms" not in described
    everything = configure("--describe", "--topic", topic, "--all")
    assert "retention.ms=604800000 sensitive=false synonyms={}" in everything
    assert (
        "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}" in everything
    )
    configure("--alter", "--broker", "1", "--add-config", "log.index.interval.bytes=5000")
    assert "log.index.interval.bytes=5000" in configure("--describe", "--broker", "1")
    configure("--alter", "--broker-defaults", "--add-config", "log.retention.ms=7200000")
    assert "log.retention.ms=7200000" in configure("--describe", "--broker-defaults")
    configure("--alter", "--broker-defaults", "--delete-config", "log.retention.ms")


def test_offsets_are_found_by_every_kind_of_time(tool: Tool, broker: Broker, make_topic: Callable[..., str]) -> None:
    # These times are long past, and retention would take such records away.
    topic = make_topic(settings={"retention.ms": -1})
    timestamps_ms = [1_700_000_000_000 + number for number in (0, 1, 5, 3, 4)]
    Librdkafka(broker.bootstrap_servers).write(topic, [Record(b"value")] * 5, timestamps_ms=timestamps_ms)

    def offsets(time: str) -> str:
        return tool("GetOffsetShell", "--topic-partitions", f"{topic}:0", "--time", time).strip()

    assert offsets("latest") == f"{topic}:0:5"
    assert offsets("earliest") == f"{topic}:0:0"
    assert offsets("max-timestamp") == f"{topic}:0:2"
    assert offsets("earliest-local") == f"{topic}:0:0"
    # Nothing is in a second tier, so there is no last offset there; the tool leaves such partitions out.
    assert offsets("latest-tiered") == ""
    assert offsets("1700000000002") == f"{topic}:0:2"


def test_records_are_deleted(tool: Tool, broker: Broker, make_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = make_topic()
    client = Librdkafka(broker.bootstrap_servers)
    client.write(topic, [Record(b"value")] * 5)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}))
    assert "low_watermark: 3" in tool("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert client.offset_at(topic, -2) == 3


def test_log_directories_and_the_cluster_are_described(
    tool: Tool, broker: Broker, make_topic: Callable[..., str], data_directory: Path
) -> None:
    topic = make_topic()
    Librdkafka(broker.bootstrap_servers).write(topic, [Record(b"value")])
    output = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    (described,) = json.loads(output.splitlines()[-1])["brokers"]
    (directory,) = described["logDirs"]
    size = (data_directory / f"{topic}-0" / f"{0:020}.log").stat().st_size
    assert directory["logDir"] == str(data_directory)
    assert directory["partitions"] == [{"partition": f"{topic}-0", "size": size, "offsetLag": 0, "isFuture": False}]
    assert re.search(r"Cluster ID: \S{22}", tool("ClusterTool", "cluster-id"))
    assert re.search(r"1\s+127\.0\.0\.1\s+\d+\s+null\s+unfenced", tool("ClusterTool", "list-endpoints"))


def test_every_api_version_that_is_offered_is_usable_by_the_java_client(tool: Tool) -> None:
    offered = tool("BrokerApiVersionsCommand")
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", offered)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", offered)
    assert "UNKNOWN" not in offered


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_producers_performance_tool_runs(
    tool: Tool, broker: Broker, make_topic: Callable[..., str], codec: str
) -> None:
    topic = make_topic(3)
    load = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    output = tool("ProducerPerformance", "--topic", topic, *load, "--command-property", f"compression.type={codec}")
    assert "20000 records sent" in output
    offsets = tool("GetOffsetShell", "--topic", topic)
    assert sum(int(line.rpartition(":")[2]) for line in offsets.splitlines()) == 20000
