"""DescribeConfigs shows the settings of topics, groups, client metrics and brokers as Apache Kafka does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8
from tests.broker.handlers.wire import Wire
from tests.compat.clients.client import TIMEOUT_S
from tests.compat.java_tool import require_java

from catchment.bench.peers.kafka import KafkaServer
from catchment.broker.admin.config_changes import ResourceType
from catchment.settings.definitions.ignored import ignored_settings
from catchment.testing.embedded import Broker

_DEFAULT = 5
# Kafka's own node sets these to run at all.
_OF_THE_NODE = {
    "controller.listener.names",
    "controller.quorum.voters",
    "process.roles",
    "controller.quorum.bootstrap.servers",
}
_OTHER_VALUES = {
    "num.io.threads": "3",
    "num.network.threads": "2",
    "log.cleaner.threads": "2",
    "replica.lag.time.max.ms": "12345",
    "group.streams.session.timeout.ms": "50000",
    "log.local.retention.ms": "-2",
    "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256",
    "ssl.truststore.password": "secret",
    "listener.name.plaintext.ssl.truststore.password": "secret",
    "listener.name.plaintext.ssl.keystore.type": "PEM",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": "x required;",
    # What the nodes of the two tests have in common besides.
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
}
# Deliberately other (tests/ports/test_kafka_definitions.py), or an address or a directory of the node.
_OTHER_HERE = {
    "advertised.listeners",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    # Kafka's eligible leader replicas set it for all brokers.
    "min.insync.replicas",
}


def given() -> dict[str, str]:
    """Every setting that Catchment ignores, with its default, and some with another value."""
    defaults = {
        name: text
        for name, setting in ignored_settings().items()
        if name not in _OF_THE_NODE and (text := setting.render(setting.default)) is not None
    }
    # These three exist at run time only.
    for name in [name for name in defaults if name.endswith((".throttled.rate", "log.dirs.io.max.bytes.per.second"))]:
        del defaults[name]
    return {**defaults, **_OTHER_VALUES}


class Shown(NamedTuple):
    value: str | None
    read_only: bool
    source: int
    is_sensitive: bool
    kind: int
    synonyms: list[tuple[str, str | None, int]]


class Server(NamedTuple):
    wire: Wire

    def shown(self, kind: ResourceType, name: str) -> dict[str, Shown]:
        resource = DescribeConfigsResource(resource_type=i8(kind), resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True, include_documentation=True)
        (result,) = self.wire.ask(request, 4).results
        assert result.error_code is ErrorCode.none, result.error_message
        return {config.name: _shown(config) for config in result.configs}

    def alter(self, kind: ResourceType, name: str, **configs: str | None) -> tuple[ErrorCode, str | None]:
        """Set these, with underscores for dots; None deletes."""
        changes = tuple(
            AlterableConfig(name=key.replace("_", "."), config_operation=i8(value is None), value=value)
            for key, value in configs.items()
        )
        resource = AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (response,) = self.wire.ask(request, 1).responses
        return response.error_code, response.error_message


def _shown(config: Any) -> Shown:
    synonyms = [(synonym.name, synonym.value, int(synonym.source)) for synonym in config.synonyms]
    return Shown(
        config.value,
        config.read_only,
        int(config.config_source),
        config.is_sensitive,
        int(config.config_type),
        synonyms,
    )


def _prepared(server: Broker | KafkaServer) -> Iterator[Server]:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, 1, config={"retention.ms": "1000"})])["t"].result(TIMEOUT_S)
    with Wire(server) as wire:
        yield Server(wire)


@pytest.fixture(scope="module")
def ours() -> Iterator[Server]:
    with Broker(settings=given()) as broker:
        yield from _prepared(broker)


@pytest.fixture(scope="module")
def theirs() -> Iterator[Server]:
    require_java()
    with KafkaServer(given()) as kafka:
        yield from _prepared(kafka)


def compared(mine: dict[str, Shown], kafkas: dict[str, Shown]) -> None:
    """Everything that both have is equal, and we have nothing of our own but what is named so."""
    common = sorted((mine.keys() & kafkas.keys()) - _OTHER_HERE)
    assert {name: mine[name] for name in common} == {name: kafkas[name] for name in common}


def test_topics_and_groups_are_described_as_by_kafka(ours: Server, theirs: Server) -> None:
    for kind, name in ((ResourceType.TOPIC, "t"), (ResourceType.GROUP, "g"), (ResourceType.CLIENT_METRICS, "m")):
        mine, kafkas = ours.shown(kind, name), theirs.shown(kind, name)
        assert {key for key in mine if not key.startswith("catchment.")} == set(kafkas)
        compared(mine, kafkas)


def test_configured_settings_of_a_broker_are_described_as_by_kafka(ours: Server, theirs: Server) -> None:
    changed = {"leader.replication.throttled.rate", "num.io.threads", "log.retention.ms"}
    for server in (ours, theirs):
        # One of Kafka's and one that Catchment acts on, for this broker and for all.
        assert server.alter(ResourceType.BROKER, "1", leader_replication_throttled_rate="1000") == (
            ErrorCode.none,
            None,
        )
        assert server.alter(ResourceType.BROKER, "", num_io_threads="4", log_retention_ms="5000") == (
            ErrorCode.none,
            None,
        )
        # Kafka answers before its broker has the change; until then a setting that exists at run time only is not listed.
        deadline_s = time.monotonic() + TIMEOUT_S
        while not changed.issubset(shown := server.shown(ResourceType.BROKER, "1")) or (
            {shown[name].source for name in changed} != {2, 3}
        ):
            assert time.monotonic() < deadline_s
    for name in ("1", ""):
        mine, kafkas = ours.shown(ResourceType.BROKER, name), theirs.shown(ResourceType.BROKER, name)
        compared(mine, kafkas)
        missing = {key for key in kafkas if key not in mine and kafkas[key].source != _DEFAULT}
        assert missing <= {*_OF_THE_NODE, *_OTHER_HERE}
        own = {key for key in mine if key not in kafkas and not key.startswith("catchment.")}
        assert {mine[key].source for key in own} <= {_DEFAULT}


def test_metrics_subscriptions_are_rejected_and_deleted_as_if_there_were_none(ours: Server, theirs: Server) -> None:
    kind = ResourceType.CLIENT_METRICS
    for name, configs in (
        ("m", {"interval_ms": None}),
        ("m", {}),
        ("", {"interval_ms": "1000"}),
        ("m", {"unknown": "1"}),
    ):
        assert ours.alter(kind, name, **configs) == theirs.alter(kind, name, **configs)
    code, message = ours.alter(kind, "m", interval_ms="1000")
    assert code is ErrorCode.invalid_request
    assert message is not None
    assert "metrics" in message
