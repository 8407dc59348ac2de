"""The state of share groups over the wire (keys 83-87): it is kept through a kill, and each partition is answered for itself."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from kio.schema.delete_share_group_state.v0 import request as deleting
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest, TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.initialize_share_group_state.v0 import request as initializing
from kio.schema.read_share_group_state.v0 import request as reading
from kio.schema.read_share_group_state.v0.response import PartitionResult
from kio.schema.read_share_group_state_summary.v1 import request as summarizing
from kio.schema.read_share_group_state_summary.v1.response import PartitionResult as Summary
from kio.schema.types import TopicName
from kio.schema.write_share_group_state.v1 import request as writing
from kio.static.primitive import i8, i16, i32, i64
from tests.broker.handlers.wire import Wire

from catchment.storage.layout import format_uuid
from catchment.testing.embedded import Broker

ACKNOWLEDGED = 2


def topic_id_of(wire: Wire, name: str = "a") -> UUID:
    request = DescribeTopicPartitionsRequest(
        topics=(TopicRequest(name=TopicName(name)),), response_partition_limit=i32(1), cursor=None
    )
    found = wire.ask(request, 0).topics[0].topic_id
    assert isinstance(found, UUID)
    return found


def initialize(
    wire: Wire, topic_id: UUID, *partitions: int, group_id: str = "g", state_epoch: int = 0, start_offset: int = 0
) -> list[ErrorCode]:
    asked = tuple(
        initializing.PartitionData(partition=i32(number), state_epoch=i32(state_epoch), start_offset=i64(start_offset))
        for number in partitions
    )
    topics = (initializing.InitializeStateData(topic_id=topic_id, partitions=asked),)
    response = wire.ask(initializing.InitializeShareGroupStateRequest(group_id=group_id, topics=topics), 0)
    return [one.error_code for result in response.results for one in result.partitions]


def write(
    wire: Wire,
    topic_id: UUID,
    *batches: tuple[int, int, int, int],
    partition: int = 0,
    state_epoch: int = -1,
    leader_epoch: int = -1,
    start_offset: int = -1,
    complete_count: int = -1,
    version: int = 1,
) -> ErrorCode:
    asked = writing.PartitionData(
        partition=i32(partition),
        state_epoch=i32(state_epoch),
        leader_epoch=i32(leader_epoch),
        start_offset=i64(start_offset),
        delivery_complete_count=i32(complete_count),
        state_batches=tuple(
            writing.StateBatch(
                first_offset=i64(first), last_offset=i64(last), delivery_state=i8(state), delivery_count=i16(count)
            )
            for first, last, state, count in batches
        ),
    )
    topics = (writing.WriteStateData(topic_id=topic_id, partitions=(asked,)),)
    response = wire.ask(writing.WriteShareGroupStateRequest(group_id="g", topics=topics), version)
    code = response.results[0].partitions[0].error_code
    assert isinstance(code, ErrorCode)
    return code


def read(wire: Wire, topic_id: UUID, leader_epoch: int = -1, partition: int = 0) -> PartitionResult:
    asked = reading.PartitionData(partition=i32(partition), leader_epoch=i32(leader_epoch))
    topics = (reading.ReadStateData(topic_id=topic_id, partitions=(asked,)),)
    response = wire.ask(reading.ReadShareGroupStateRequest(group_id="g", topics=topics), 0)
    result = response.results[0].partitions[0]
    assert isinstance(result, PartitionResult)
    return result


def summary(wire: Wire, topic_id: UUID, partition: int = 0, version: int = 1) -> Summary:
    asked = summarizing.PartitionData(partition=i32(partition), leader_epoch=i32(-1))
    topics = (summarizing.ReadStateSummaryData(topic_id=topic_id, partitions=(asked,)),)
    response = wire.ask(summarizing.ReadShareGroupStateSummaryRequest(group_id="g", topics=topics), version)
    result = response.results[0].partitions[0]
    assert isinstance(result, Summary)
    return result


def delete(wire: Wire, topic_id: UUID, partition: int = 0) -> ErrorCode:
    topics = (
        deleting.DeleteStateData(topic_id=topic_id, partitions=(deleting.PartitionData(partition=i32(partition)),)),
    )
    response = wire.ask(deleting.DeleteShareGroupStateRequest(group_id="g", topics=topics), 0)
    code = response.results[0].partitions[0].error_code
    assert isinstance(code, ErrorCode)
    return code


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_written_is_read_at_every_version(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a")
    topic_id = topic_id_of(wire)
    assert initialize(wire, topic_id, 0, state_epoch=3, start_offset=5) == [ErrorCode.none]
    written = write(wire, topic_id, (5, 9, ACKNOWLEDGED, 1), complete_count=5, version=version)
    assert written is ErrorCode.none
    found = read(wire, topic_id, leader_epoch=2)
    (batch,) = found.state_batches
    assert (found.state_epoch, found.start_offset, batch.first_offset, batch.last_offset) == (3, 5, 5, 9)
    assert (batch.delivery_state, batch.delivery_count) == (ACKNOWLEDGED, 1)
    summed = summary(wire, topic_id, version=version)
    assert (summed.state_epoch, summed.leader_epoch, summed.start_offset) == (3, 2, 5)
    assert summed.delivery_complete_count == (5 if version == 1 else -1)


def test_epochs_fence(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    topic_id = topic_id_of(wire)
    initialize(wire, topic_id, 0, state_epoch=3)
    read(wire, topic_id, leader_epoch=2)
    assert write(wire, topic_id, leader_epoch=1) is ErrorCode.fenced_leader_epoch
    assert read(wire, topic_id, leader_epoch=1).error_code is ErrorCode.fenced_leader_epoch
    assert write(wire, topic_id, state_epoch=2, leader_epoch=2) is ErrorCode.fenced_state_epoch
    assert initialize(wire, topic_id, 0, state_epoch=2) == [ErrorCode.fenced_state_epoch]


def test_each_partition_fails_alone_and_nothing_is_asked_of_an_empty_group(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    topic_id = topic_id_of(wire)
    assert initialize(wire, topic_id, 0, 2, 1, -1) == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
    assert initialize(wire, topic_id, 0, group_id="") == []


def test_what_was_never_initialised_has_no_state(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    topic_id = topic_id_of(wire)
    assert write(wire, topic_id) is ErrorCode.invalid_request
    assert read(wire, topic_id).error_code is ErrorCode.invalid_request
    assert summary(wire, topic_id).start_offset == -1
    assert summary(wire, UUID(int=7)).error_code is ErrorCode.unknown_topic_or_partition


def test_a_deleted_state_is_gone(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    topic_id = topic_id_of(wire)
    initialize(wire, topic_id, 0)
    assert delete(wire, topic_id) is ErrorCode.none
    assert delete(wire, topic_id) is ErrorCode.none
    assert summary(wire, topic_id).start_offset == -1
    assert delete(wire, topic_id, partition=9) is ErrorCode.unknown_topic_or_partition


def test_what_was_acknowledged_survives_a_power_loss(broker: Broker) -> None:
    broker.create_topic("a")
    with Wire(broker) as wire:
        topic_id = topic_id_of(wire)
        initialize(wire, topic_id, 0)
    for seed in range(3):
        with Wire(broker) as wire:
            read(wire, topic_id, leader_epoch=seed)
            assert write(wire, topic_id, (seed, seed, ACKNOWLEDGED, 1), leader_epoch=seed) is ErrorCode.none
        broker.kill(power_loss=Random(seed))
        broker.start()
        with Wire(broker) as wire:
            (batch,) = read(wire, topic_id).state_batches
            assert (batch.first_offset, batch.last_offset) == (0, seed)
            assert write(wire, topic_id, leader_epoch=seed - 1) is (
                ErrorCode.fenced_leader_epoch if seed else ErrorCode.none
            )


@pytest.mark.parametrize("group_id", ["g", "with:colons"])
def test_the_coordinator_of_a_state_is_found(broker: Broker, wire: Wire, group_id: str) -> None:
    broker.create_topic("a")
    key = f"{group_id}:{format_uuid(topic_id_of(wire))}:0"
    (found,) = wire.ask(FindCoordinatorRequest(key_type=i8(2), coordinator_keys=(key,)), 6).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.none, 1)
    assert f"{found.host}:{found.port}" == broker.bootstrap_servers


@pytest.mark.parametrize("key", ["", "g", "g:0", "g:notanid:0", f"g:{format_uuid(UUID(int=1))}:x", " :AAAA:0"])
def test_a_key_that_names_no_state_is_rejected(wire: Wire, key: str) -> None:
    (found,) = wire.ask(FindCoordinatorRequest(key_type=i8(2), coordinator_keys=(key,)), 6).coordinators
    assert found.error_code is ErrorCode.invalid_request


def test_states_are_not_found_at_versions_that_know_nothing_of_them(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    key = f"g:{format_uuid(topic_id_of(wire))}:0"
    (found,) = wire.ask(FindCoordinatorRequest(key_type=i8(2), coordinator_keys=(key,)), 5).coordinators
    assert found.error_code is ErrorCode.invalid_request
