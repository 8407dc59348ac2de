"""CreateTopics over the wire, at every version."""

from datetime import timedelta

import pytest
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32, i32Timedelta
from tests.broker.handlers.wire import Wire

from catchment.cluster.new_topic import MAX_NEW_PARTITIONS
from catchment.testing.embedded import Broker

TIMEOUT = i32Timedelta.parse(timedelta(seconds=5))


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: list[tuple[int, list[int]]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(partitions),
        replication_factor=i16(factor),
        assignments=tuple(
            CreatableReplicaAssignment(
                partition_index=i32(number), broker_ids=tuple(BrokerId(broker) for broker in brokers)
            )
            for number, brokers in assignments or ()
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
    )


def create(wire: Wire, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> CreateTopicsResponse:
    request = CreateTopicsRequest(topics=topics, timeout=TIMEOUT, validate_only=validate_only)
    response = wire.ask(request, version)
    assert isinstance(response, CreateTopicsResponse)
    return response


def codes(response: CreateTopicsResponse) -> dict[str, ErrorCode]:
    return {result.name: result.error_code for result in response.topics}


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_created_at_every_version(wire: Wire, version: int) -> None:
    response = create(wire, topic("a", 3), topic("b"), version=version)
    assert codes(response) == {"a": ErrorCode.none, "b": ErrorCode.none}
    again = create(wire, topic("a"), version=version)
    assert codes(again) == {"a": ErrorCode.topic_already_exists}
    assert again.topics[0].error_message == "Topic 'a' already exists."


def test_the_response_tells_id_counts_and_every_setting_with_its_source(wire: Wire) -> None:
    (result,) = create(wire, topic("a", 2, configs={"retention.ms": "1234"})).topics
    assert result.topic_id is not None
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert result.configs is not None
    settings = {config.name: (config.value, config.config_source) for config in result.configs}
    assert settings["retention.ms"] == ("1234", 1)
    assert settings["cleanup.policy"] == ("delete", 5)


def test_minus_one_means_the_brokers_defaults() -> None:
    with Broker(settings={"num.partitions": 5}) as broker, Wire(broker) as wire:
        (result,) = create(wire, topic("a", -1, -1)).topics
        assert (result.num_partitions, result.replication_factor) == (5, 1)


def test_a_manual_assignment_is_followed(wire: Wire) -> None:
    (result,) = create(wire, topic("a", -1, -1, assignments=[(1, [1]), (0, [1])])).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 2)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (topic("a b"), ErrorCode.invalid_topic_exception),
        (topic("__cluster_metadata"), ErrorCode.invalid_request),
        (topic("a", 0), ErrorCode.invalid_partitions),
        (topic("a", MAX_NEW_PARTITIONS + 1), ErrorCode.policy_violation),
        (topic("a", 1, 3), ErrorCode.invalid_replication_factor),
        (topic("a", 1, -1, assignments=[(0, [1])]), ErrorCode.invalid_request),
        (topic("a", -1, 1, assignments=[(0, [1])]), ErrorCode.invalid_request),
        (topic("a", -1, -1, assignments=[(0, [1]), (0, [1])]), ErrorCode.invalid_replica_assignment),
        (topic("a", -1, -1, assignments=[(0, [7])]), ErrorCode.invalid_replica_assignment),
        (topic("a", configs={"no.such.setting": "1"}), ErrorCode.invalid_config),
        (topic("a", configs={"retention.ms": "soon"}), ErrorCode.invalid_config),
        (topic("a", configs={"retention.ms": None}), ErrorCode.invalid_config),
    ],
)
def test_what_is_invalid_is_rejected_alone_and_with_a_reason(
    wire: Wire, asked: CreatableTopic, code: ErrorCode
) -> None:
    response = create(wire, asked)
    assert codes(response) == {asked.name: code}
    assert response.topics[0].error_message
    assert response.topics[0].topic_id is None
    assert codes(create(wire, topic("other"))) == {"other": ErrorCode.none}


def test_a_failing_topic_does_not_keep_its_neighbour_from_being_created(wire: Wire) -> None:
    assert codes(create(wire, topic("a b"), topic("c"))) == {
        "a b": ErrorCode.invalid_topic_exception,
        "c": ErrorCode.none,
    }


def test_a_name_that_is_in_the_request_twice_is_rejected_once_and_not_created(wire: Wire) -> None:
    response = create(wire, topic("a"), topic("b"), topic("a", 2))
    assert [(result.name, result.error_code) for result in response.topics] == [
        ("a", ErrorCode.invalid_request),
        ("b", ErrorCode.none),
    ]
    assert codes(create(wire, topic("a"))) == {"a": ErrorCode.none}


def test_partitions_are_bounded_over_the_whole_request(wire: Wire) -> None:
    half = MAX_NEW_PARTITIONS // 2 + 1
    response = create(wire, topic("a", half), topic("b", half), validate_only=True)
    assert set(codes(response).values()) == {ErrorCode.policy_violation}


def test_validate_only_responses_as_if_and_creates_nothing(wire: Wire) -> None:
    for _ in range(2):
        (result,) = create(wire, topic("a", 3), validate_only=True).topics
        assert (result.error_code, result.num_partitions) == (ErrorCode.none, 3)


def test_created_topics_are_there_after_a_kill(broker: Broker) -> None:
    with Wire(broker) as wire:
        first = create(wire, topic("a", 2)).topics[0]
    broker.kill()
    broker.start()
    with Wire(broker) as wire:
        assert codes(create(wire, topic("a"))) == {first.name: ErrorCode.topic_already_exists}
