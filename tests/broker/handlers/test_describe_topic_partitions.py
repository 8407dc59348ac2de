"""DescribeTopicPartitions over the wire: pages and cursors."""

import pytest
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


def describe(
    wire: Wire, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    start = None
    if cursor is not None:
        start = Cursor(topic_name=TopicName(cursor[0]), partition_index=i32(cursor[1]))
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=TopicName(name)) for name in names),
        response_partition_limit=i32(limit),
        cursor=start,
    )
    response = wire.ask(request, 0)
    assert isinstance(response, DescribeTopicPartitionsResponse)
    return response


def pages(wire: Wire, *names: str, limit: int) -> list[list[tuple[str | None, int]]]:
    """Every page by following the cursors."""
    found: list[list[tuple[str | None, int]]] = []
    cursor: tuple[str, int] | None = None
    while True:
        response = describe(wire, *names, limit=limit, cursor=cursor)
        found.append([(topic.name, p.partition_index) for topic in response.topics for p in topic.partitions])
        if response.next_cursor is None:
            return found
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)


def test_a_topic_is_described_with_leader_epoch_and_replicas(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    (topic,) = describe(wire, "a").topics
    assert topic.topic_id is not None
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, 3576)
    assert [(p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [
        (1, 0, (1,), (1,))
    ] * 2


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6, 7])
def test_following_the_cursors_shows_each_partition_once_in_order(broker: Broker, wire: Wire, limit: int) -> None:
    for name, count in (("b", 2), ("a", 3), ("c", 1)):
        broker.create_topic(name, count)
    found = pages(wire, limit=limit)
    assert [entry for page in found for entry in page] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("b", 0),
        ("b", 1),
        ("c", 0),
    ]
    assert all(len(page) <= limit for page in found)


def test_the_broker_has_a_limit_of_its_own_and_a_page_is_never_empty() -> None:
    with Broker(settings={"max.request.partition.size.limit": 2}) as broker, Wire(broker) as wire:
        broker.create_topic("a", 5)
        assert len(describe(wire).topics[0].partitions) == 2
        assert len(describe(wire, limit=-7).topics[0].partitions) == 1


def test_names_that_are_unknown_or_impossible_get_their_own_errors(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    response = describe(wire, "nowhere", "a b", "a")
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.none),
        ("a b", ErrorCode.invalid_topic_exception),
        ("nowhere", ErrorCode.unknown_topic_or_partition),
    ]


def test_a_cursor_at_a_topic_that_is_gone_continues_with_the_next(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    broker.create_topic("c", 2)
    response = describe(wire, cursor=("b", 1))
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("c", 2)]


def test_a_negative_partition_in_a_cursor_is_rejected(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert [topic.error_code for topic in describe(wire, cursor=("a", -1)).topics] == [ErrorCode.invalid_request]
