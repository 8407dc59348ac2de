"""Metadata over the wire: brokers, topics by name and by id, and topics made on the way."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


def ask(wire: Wire, *topics: str | UUID, everything: bool = False, create: bool = False, version: int = 13) -> Any:
    asked = tuple(
        MetadataRequestTopic(topic_id=None, name=TopicName(topic))
        if isinstance(topic, str)
        else MetadataRequestTopic(topic_id=topic, name=None)
        for topic in topics
    )
    request = MetadataRequest(
        topics=None if everything else asked,
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=False,
    )
    return wire.ask(request, version)


@pytest.mark.parametrize("version", range(14))
def test_brokers_and_leaders_are_returned_in_every_version(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a", 3)
    answer = ask(wire, "a", version=version)
    (node,) = answer.brokers
    assert f"{node.host}:{node.port}" == broker.bootstrap_servers
    assert answer.controller_id == (node.node_id if version >= 1 else -1)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (ErrorCode.none, "a")
    assert sorted(each.partition_index for each in topic.partitions) == [0, 1, 2]
    assert {each.leader_id for each in topic.partitions} == {node.node_id}
    assert {each.isr_nodes for each in topic.partitions} == {(node.node_id,)}


@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_all_topics_at_once(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a")
    broker.create_topic("b")
    assert sorted(topic.name for topic in ask(wire, everything=True, version=version).topics) == ["a", "b"]


def test_no_topics_is_not_all_topics(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert ask(wire).topics == ()


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_by_its_id(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a")
    topic_id = ask(wire, "a").topics[0].topic_id
    (found,) = ask(wire, topic_id, version=version).topics
    assert (found.error_code, found.name) == (ErrorCode.none, "a")
    (unknown,) = ask(wire, UUID(int=topic_id.int ^ 1), version=version).topics
    assert unknown.error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_version_twelve_are_rejected_and_the_response_can_be_read(wire: Wire, version: int) -> None:
    (refused,) = ask(wire, UUID(int=5), version=version).topics
    assert refused.error_code is ErrorCode.invalid_request


def test_a_missing_topic_is_created_only_if_client_and_broker_allow_it(broker: Broker, wire: Wire) -> None:
    assert ask(wire, "a").topics[0].error_code is ErrorCode.unknown_topic_or_partition
    made = ask(wire, "a", create=True).topics[0]
    assert made.error_code is ErrorCode.none
    assert len(made.partitions) == 1
    assert ask(wire, "a").topics[0].topic_id == made.topic_id


def test_a_broker_that_forbids_it_makes_no_topics() -> None:
    with Broker(settings={"auto.create.topics.enable": False}) as strict, Wire(strict) as wire:
        assert ask(wire, "a", create=True).topics[0].error_code is ErrorCode.unknown_topic_or_partition


def test_new_topics_get_the_default_number_of_partitions() -> None:
    with Broker(settings={"num.partitions": 5}) as wide, Wire(wide) as wire:
        assert len(ask(wire, "a", create=True).topics[0].partitions) == 5


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 250])
def test_a_name_that_is_invalid_is_rejected_and_nothing_is_made(wire: Wire, name: str) -> None:
    assert ask(wire, name, create=True).topics[0].error_code is ErrorCode.invalid_topic_exception
    assert ask(wire, everything=True).topics == ()


def test_the_response_names_the_listener_that_was_asked() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://inside.example:7777",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    }
    with Broker(settings=settings) as broker, Wire(broker) as wire:
        (outside,) = ask(wire).brokers
        assert f"{outside.host}:{outside.port}" == broker.bootstrap_servers
        with Wire(broker, broker.listener_port("INSIDE")) as inner:
            (inside,) = ask(inner).brokers
            assert (inside.host, inside.port) == ("inside.example", 7777)
