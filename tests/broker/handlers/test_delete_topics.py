"""DeleteTopics over the wire: by name, by id, and what is refused."""

from datetime import timedelta
from random import Random
from uuid import UUID

import pytest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32Timedelta
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


def delete(wire: Wire, *topics: str | UUID | None, version: int = 6) -> list[DeletableTopicResult]:
    states = tuple(
        DeleteTopicState(
            name=TopicName(topic) if isinstance(topic, str) else None,
            topic_id=topic if isinstance(topic, UUID) else None,
        )
        for topic in topics
    )
    timeout = i32Timedelta.parse(timedelta(seconds=5))
    return list(wire.ask(DeleteTopicsRequest(topics=states, timeout=timeout), version).responses)


def ids(wire: Wire) -> dict[str, UUID]:
    """The topics that there are."""
    return {topic.name: topic.topic_id for topic in wire.ask(DescribeTopicPartitionsRequest(topics=()), 0).topics}


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_by_name_at_every_version(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a", 3)
    broker.create_topic("b")
    assert [result.error_code for result in delete(wire, "a", version=version)] == [ErrorCode.none]
    assert list(ids(wire)) == ["b"]
    assert [result.error_code for result in delete(wire, "a", version=version)] == [
        ErrorCode.unknown_topic_or_partition
    ]


def test_a_topic_is_deleted_by_id_and_the_response_names_it(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    topic_id = ids(wire)["a"]
    (result,) = delete(wire, topic_id)
    assert (result.name, result.topic_id, result.error_code) == ("a", topic_id, ErrorCode.none)
    (result,) = delete(wire, topic_id)
    assert result.error_code is ErrorCode.unknown_topic_id
    assert str(topic_id) in (result.error_message or "")


def test_a_deleted_name_can_be_had_again_with_a_new_id(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    first = ids(wire)["a"]
    delete(wire, "a")
    broker.create_topic("a")
    assert ids(wire)["a"] != first


def test_a_topic_named_twice_by_name_and_id_is_not_deleted(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    results = delete(wire, "a", ids(wire)["a"])
    assert [result.error_code for result in results] == [ErrorCode.invalid_request] * 2
    assert list(ids(wire)) == ["a"]


def test_a_topic_needs_either_a_name_or_an_id(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert delete(wire, None)[0].error_code is ErrorCode.invalid_request
    both = DeleteTopicState(name=TopicName("a"), topic_id=ids(wire)["a"])
    timeout = i32Timedelta.parse(timedelta(seconds=5))
    response = wire.ask(DeleteTopicsRequest(topics=(both,), timeout=timeout), 6)
    assert response.responses[0].error_code is ErrorCode.invalid_request
    assert list(ids(wire)) == ["a"]


def test_disabled_deletion_gets_the_code_of_the_version() -> None:
    with Broker(settings={"delete.topic.enable": False}) as broker, Wire(broker) as wire:
        broker.create_topic("a")
        assert delete(wire, "a", version=2)[0].error_code is ErrorCode.invalid_request
        (result,) = delete(wire, "a")
        assert result.error_code is ErrorCode.topic_deletion_disabled
        assert "delete.topic.enable" in (result.error_message or "")
        assert list(ids(wire)) == ["a"]


def test_a_deleted_topic_stays_deleted_after_a_power_loss(broker: Broker) -> None:
    broker.create_topic("a")
    broker.create_topic("b")
    with Wire(broker) as wire:
        delete(wire, "a")
    broker.kill(power_loss=Random(5))
    broker.start()
    with Wire(broker) as wire:
        assert list(ids(wire)) == ["b"]
