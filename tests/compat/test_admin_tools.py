"""Kafka's tools report what a Catchment broker does not support; commands that only describe or change nothing succeed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compat.java_archive import SHORT_LIVED, archive_options
from tests.compat.java_tool import TIMEOUT_S, java_tool, require_java

from catchment.bench.peers.java import run_tool
from catchment.testing.embedded import Broker

Tool = Callable[..., str]


@pytest.fixture
def tool(broker: Broker) -> Tool:
    """Run a tool that must succeed; what it printed."""

    def run(name: str, *arguments: str, package: str = "org.apache.kafka.tools") -> str:
        return java_tool(name, "--bootstrap-server", broker.bootstrap_servers, *arguments, package=package).decode()

    return run


@pytest.fixture
def refused(broker: Broker) -> Tool:
    """Run a tool that must fail; what it printed."""

    def run(name: str, *arguments: str, package: str = "org.apache.kafka.tools") -> str:
        require_java()
        finished = run_tool(
            f"{package}.{name}",
            ["--bootstrap-server", broker.bootstrap_servers, *arguments],
            TIMEOUT_S,
            virtual_machine=(*SHORT_LIVED, *archive_options()),
        )
        output = (finished.stdout + finished.stderr).decode()
        assert finished.returncode == 1, output
        return output

    return run


def test_users_have_no_settings(tool: Tool, refused: Tool) -> None:
    users = ("--entity-type", "users")
    assert tool("ConfigCommand", "--describe", *users, package="kafka.admin").strip() == ""
    assert tool("ConfigCommand", "--describe", *users, "--entity-name", "a", package="kafka.admin").strip() == ""
    password = ("--entity-name", "a", "--add-config", "SCRAM-SHA-256=[password=x]")
    said = refused("ConfigCommand", "--alter", *users, *password, package="kafka.admin")
    assert "SecurityDisabledException: Catchment has no SASL listener" in said


def test_acls_and_tokens_are_off(refused: Tool, tmp_path: Path) -> None:
    assert "No Authorizer is configured on the broker" in refused("AclCommand", "--list")
    empty = tmp_path / "client.properties"
    empty.touch()
    said = refused("DelegationTokenCommand", "--describe", "--command-config", str(empty))
    assert "not allowed on PLAINTEXT" in said


def test_features_are_described_and_stay(tool: Tool, refused: Tool) -> None:
    described = tool("FeatureCommand", "describe")
    assert re.search(r"metadata\.version.*SupportedMaxVersion: 4\.3-IV0\s+FinalizedVersionLevel: 4\.3-IV0", described)
    assert re.search(r"transaction\.version.*FinalizedVersionLevel: 2", described)
    assert "was upgraded to 2" in tool("FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    said = refused("FeatureCommand", "downgrade", "--feature", "transaction.version=1")
    assert "Catchment only supports this feature at version 2" in said


def test_the_quorum_is_the_broker(tool: Tool, broker: Broker) -> None:
    status = tool("MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", status)
    assert f"PLAINTEXT://{broker.bootstrap_servers}" in status
    assert re.search(
        r"^1\s+\S+\s+\d+\s+0\s.*Leader", tool("MetadataQuorumCommand", "describe", "--replication"), re.MULTILINE
    )


def test_a_plan_that_moves_nothing_is_executed_and_verified(
    tool: Tool, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}))

    def reassign(*arguments: str) -> str:
        return tool("ReassignPartitionsCommand", *arguments, package="org.apache.kafka.tools.reassign")

    assert "No partition reassignments found." in reassign("--list")
    file = ("--reassignment-json-file", str(plan))
    assert f"Successfully started partition reassignment for {topic}-0" in reassign("--execute", *file)
    assert f"Reassignment of partition {topic}-0 is completed." in reassign("--verify", *file)
    assert "None of the specified partition reassignments are active." in reassign("--cancel", *file)


def test_all_leaders_are_elected_and_no_metrics_are_subscribed_to(
    tool: Tool, refused: Tool, make_topic: Callable[..., str]
) -> None:
    make_topic()
    tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert tool("ClientMetricsCommand", "--list").strip() == ""
    tool("ClientMetricsCommand", "--delete", "--name", "m")
    said = refused("ClientMetricsCommand", "--alter", "--name", "m", "--interval", "1000")
    assert "Catchment does not collect client metrics" in said
