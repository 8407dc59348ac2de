"""The APIs for settings through a running broker, at every version that they claim."""

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.alter_configs.v2 import request as alter
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as incremental
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.static.primitive import i8
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

TOPIC, BROKER = i8(2), i8(4)


def create_topic(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)


def describe(wire: Wire, resource_type: i8, name: str, key: str, version: int = 4) -> Any:
    resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=(key,))
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True, include_documentation=version >= 3)
    (result,) = wire.ask(request, version).results
    assert result.error_code == ErrorCode.none
    (config,) = result.configs
    return config


def set_one(wire: Wire, resource_type: i8, name: str, key: str, value: str, version: int = 1) -> None:
    config = incremental.AlterableConfig(name=key, config_operation=i8(0), value=value)
    resource = incremental.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=(config,))
    request = incremental.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    assert wire.ask(request, version).responses[0].error_code == ErrorCode.none


@pytest.mark.parametrize("version", range(1, 5))
def test_settings_are_described_at_every_version(broker: Broker, wire: Wire, version: int) -> None:
    create_topic(broker)
    config = describe(wire, TOPIC, "t", "cleanup.policy", version)
    assert (config.value, config.config_source, config.read_only) == ("delete", 5, False)
    assert [(synonym.name, synonym.source) for synonym in config.synonyms] == [("log.cleanup.policy", 5)]
    if version >= 3:
        assert config.config_type == 7
        assert config.documentation


@pytest.mark.parametrize("version", range(2))
def test_settings_are_changed_one_by_one_at_every_version(broker: Broker, wire: Wire, version: int) -> None:
    create_topic(broker)
    set_one(wire, TOPIC, "t", "retention.ms", "12345", version)
    assert describe(wire, TOPIC, "t", "retention.ms").value == "12345"


@pytest.mark.parametrize("version", range(3))
def test_settings_are_replaced_at_every_version(broker: Broker, wire: Wire, version: int) -> None:
    create_topic(broker)
    config = alter.AlterableConfig(name="retention.ms", value="54321")
    resource = alter.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=(config,))
    request = alter.AlterConfigsRequest(resources=(resource,), validate_only=False)
    assert wire.ask(request, version).responses[0].error_code == ErrorCode.none
    assert describe(wire, TOPIC, "t", "retention.ms").value == "54321"


@pytest.mark.parametrize("version", range(2))
def test_resources_are_listed_at_every_version(broker: Broker, wire: Wire, version: int) -> None:
    create_topic(broker)
    response = wire.ask(ListConfigResourcesRequest(resource_types=()), version)
    assert response.error_code == ErrorCode.none
    listed = {resource.resource_name for resource in response.config_resources}
    assert listed == ({"1", "t"} if version else set())


def test_dynamic_settings_of_a_broker_take_effect_and_survive_a_restart(broker: Broker) -> None:
    create_topic(broker)
    with Wire(broker) as wire:
        set_one(wire, BROKER, "", "log.retention.ms", "600000")
        set_one(wire, BROKER, "1", "message.max.bytes", "2000")
        assert describe(wire, TOPIC, "t", "max.message.bytes").value == "2000"
    broker.stop()
    broker.start()
    with Wire(broker) as wire:
        retention = describe(wire, TOPIC, "t", "retention.ms")
        assert (retention.value, retention.config_source) == ("600000", 3)
        assert describe(wire, BROKER, "1", "message.max.bytes").config_source == 2


def test_a_topic_is_not_created_with_settings_that_cannot_be(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    with pytest.raises(Exception, match=r"Did you mean retention\.bytes"):
        admin.create_topics([NewTopic("u", 1, 1, config={"retention.byte": "1"})])["u"].result(30)
    assert "u" not in admin.list_topics(timeout=30).topics
