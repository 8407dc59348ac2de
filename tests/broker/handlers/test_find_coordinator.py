"""FindCoordinator over the wire."""

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName
from kio.static.primitive import i8
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


def find(wire: Wire, *keys: str, key_type: int = 0, version: int = 6) -> FindCoordinatorResponse:
    response = wire.ask(FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=keys), version)
    assert isinstance(response, FindCoordinatorResponse)
    return response


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_found_at_every_version(broker: Broker, wire: Wire, version: int) -> None:
    (coordinator,) = find(wire, "group", version=version).coordinators
    assert coordinator.error_code is ErrorCode.none
    assert (coordinator.node_id, f"{coordinator.host}:{coordinator.port}") == (1, broker.bootstrap_servers)


def test_the_first_group_creates_the_offsets_topic() -> None:
    with Broker(settings={"offsets.topic.num.partitions": 7}) as broker, Wire(broker) as wire:
        find(wire, "group")
        asked = MetadataRequestTopic(topic_id=None, name=TopicName("__consumer_offsets"))
        described = wire.ask(MetadataRequest(topics=(asked,), include_topic_authorized_operations=False), 12)
        (topic,) = described.topics
        assert (topic.is_internal, len(topic.partitions)) == (True, 7)


def test_each_of_many_keys_gets_its_own_response(wire: Wire) -> None:
    response = find(wire, "a", "b", key_type=1)
    assert [coordinator.key for coordinator in response.coordinators] == ["a", "b"]
    assert [coordinator.error_code for coordinator in response.coordinators] == [ErrorCode.none] * 2


def test_an_unknown_type_of_key_is_rejected(wire: Wire) -> None:
    assert find(wire, "a", key_type=9).coordinators[0].error_code is ErrorCode.invalid_request


def test_asking_for_its_metadata_does_not_make_the_offsets_topic(wire: Wire) -> None:
    asked = MetadataRequestTopic(topic_id=None, name=TopicName("__consumer_offsets"))
    request = MetadataRequest(
        topics=(asked,), allow_auto_topic_creation=True, include_topic_authorized_operations=False
    )
    assert wire.ask(request, 12).topics[0].error_code is ErrorCode.unknown_topic_or_partition


def test_an_offsets_topic_that_came_without_settings_is_kept_for_ever_from_the_next_start_on(broker: Broker) -> None:
    broker.create_topic("__consumer_offsets", 3)
    broker.restart()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource("topic", "__consumer_offsets")
    described = admin.describe_configs([resource])[resource].result(30)
    assert described["cleanup.policy"].value == "compact"
