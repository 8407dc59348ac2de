"""CreatePartitions over the wire."""

from datetime import timedelta

import pytest
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.create_partitions.v3.response import CreatePartitionsTopicResult
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest, TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i32Timedelta
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


def asked(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    manual = None
    if assignments is not None:
        manual = tuple(
            CreatePartitionsAssignment(broker_ids=tuple(BrokerId(broker) for broker in brokers))
            for brokers in assignments
        )
    return CreatePartitionsTopic(name=TopicName(name), count=i32(count), assignments=manual)


def grow(
    wire: Wire, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[CreatePartitionsTopicResult]:
    timeout = i32Timedelta.parse(timedelta(seconds=5))
    request = CreatePartitionsRequest(topics=topics, timeout=timeout, validate_only=validate_only)
    return list(wire.ask(request, version).results)


def partition_count(wire: Wire, name: str) -> int:
    request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name=TopicName(name)),))
    return len(wire.ask(request, 0).topics[0].partitions)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_at_every_version(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a", 2)
    (result,) = grow(wire, asked("a", 5), version=version)
    assert (result.name, result.error_code) == ("a", ErrorCode.none)
    assert partition_count(wire, "a") == 5


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (asked("nowhere", 2), ErrorCode.unknown_topic_or_partition),
        (asked("a", 2), ErrorCode.invalid_partitions),
        (asked("a", 1), ErrorCode.invalid_partitions),
        (asked("a", 3, [[9]]), ErrorCode.invalid_replica_assignment),
        (asked("a", 3, [[1], [1]]), ErrorCode.invalid_replica_assignment),
        (asked("a", 3, []), ErrorCode.invalid_replica_assignment),
    ],
)
def test_what_is_no_growth_is_rejected_with_a_reason(
    broker: Broker, wire: Wire, topic: CreatePartitionsTopic, code: ErrorCode
) -> None:
    broker.create_topic("a", 2)
    (result,) = grow(wire, topic)
    assert result.error_code is code
    assert result.error_message
    assert partition_count(wire, "a") == 2


def test_a_manual_assignment_of_the_new_partitions_is_followed(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    assert grow(wire, asked("a", 4, [[1], [1]]))[0].error_code is ErrorCode.none
    assert partition_count(wire, "a") == 4


def test_validate_only_and_duplicates_change_nothing(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert grow(wire, asked("a", 4), validate_only=True)[0].error_code is ErrorCode.none
    assert [result.error_code for result in grow(wire, asked("a", 4), asked("a", 5))] == [ErrorCode.invalid_request]
    assert partition_count(wire, "a") == 1
