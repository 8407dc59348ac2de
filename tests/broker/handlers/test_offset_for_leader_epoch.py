"""OffsetForLeaderEpoch over the wire: ends of epochs, and the fencing of clients that are behind or ahead."""

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32
from tests.broker.handlers.wire import Wire, produce

from catchment.testing.embedded import Broker


def end_of(
    wire: Wire, leader_epoch: int, *, partition: int = 0, current_leader_epoch: int = -1, version: int = 4
) -> tuple[ErrorCode, int, int]:
    """Error, epoch and end offset that the broker answers for topic a."""
    asked = OffsetForLeaderPartition(
        partition=i32(partition),
        current_leader_epoch=i32(current_leader_epoch),
        leader_epoch=i32(leader_epoch),
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=BrokerId(-1), topics=(OffsetForLeaderTopic(topic=TopicName("a"), partitions=(asked,)),)
    )
    (answered,) = wire.ask(request, version).topics[0].partitions
    return answered.error_code, answered.leader_epoch, answered.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_the_current_epoch_ends_where_the_log_ends(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a")
    produce(broker, "a", [b"x"] * 4)
    assert end_of(wire, 0, version=version) == (ErrorCode.none, 0, 4)


def test_an_epoch_before_a_restart_ends_where_the_next_one_began(broker: Broker) -> None:
    broker.create_topic("a")
    produce(broker, "a", [b"x"] * 3)
    broker.restart()
    produce(broker, "a", [b"y"] * 2)
    with Wire(broker) as wire:
        assert end_of(wire, 0) == (ErrorCode.none, 0, 3)
        assert end_of(wire, 1) == (ErrorCode.none, 1, 5)
        assert end_of(wire, -1) == (ErrorCode.none, -1, -1)
        assert end_of(wire, 7) == (ErrorCode.none, -1, -1)


def test_a_client_behind_or_ahead_of_the_leader_is_fenced(broker: Broker) -> None:
    broker.create_topic("a")
    broker.restart()
    with Wire(broker) as wire:
        assert end_of(wire, 0, current_leader_epoch=0)[0] is ErrorCode.fenced_leader_epoch
        assert end_of(wire, 0, current_leader_epoch=1)[0] is ErrorCode.none
        assert end_of(wire, 0, current_leader_epoch=2)[0] is ErrorCode.unknown_leader_epoch


def test_a_partition_that_is_not_here_is_answered_as_unknown(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert end_of(wire, 0, partition=5) == (ErrorCode.unknown_topic_or_partition, -1, -1)
