"""ElectLeaders over the wire, where the lone broker leads all it has."""

import pytest
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


def elect(
    wire: Wire, topic: str | None, *partitions: int, election_type: int = 0, version: int = 2
) -> ElectLeadersResponse:
    asked = None
    if topic is not None:
        asked = (TopicPartitions(topic=TopicName(topic), partitions=tuple(i32(number) for number in partitions)),)
    response = wire.ask(ElectLeadersRequest(election_type=i8(election_type), topic_partitions=asked), version)
    assert isinstance(response, ElectLeadersResponse)
    return response


@pytest.mark.parametrize("version", range(3))
def test_a_leader_that_is_preferred_already_needs_no_election(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a", 2)
    (result,) = elect(wire, "a", 0, 7, version=version).replica_election_results
    assert [partition.error_code for partition in result.partition_result] == [
        ErrorCode.election_not_needed,
        ErrorCode.unknown_topic_or_partition,
    ]


def test_of_all_partitions_every_topic_is_listed_with_those_that_need_an_election(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    response = elect(wire, None)
    assert response.error_code is ErrorCode.none
    assert [(result.topic, result.partition_result) for result in response.replica_election_results] == [("a", ())]


def test_an_unknown_type_of_election_is_rejected(wire: Wire) -> None:
    assert elect(wire, None, election_type=5).error_code is ErrorCode.invalid_request
    refused = elect(wire, "a", 0, election_type=5)
    assert refused.error_code is ErrorCode.invalid_request
    assert [one.error_code for result in refused.replica_election_results for one in result.partition_result] == [
        ErrorCode.invalid_request
    ]
