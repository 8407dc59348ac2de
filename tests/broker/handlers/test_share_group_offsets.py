"""The offsets of share groups over the wire (keys 90-92): described, set for groups without members, and deleted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

import pytest
from kio.schema.alter_share_group_offsets.v0 import request as altering
from kio.schema.delete_share_group_offsets.v0 import request as deleting
from kio.schema.describe_share_group_offsets.v1 import request as describing
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64
from tests.broker.handlers.test_share_group_state import topic_id_of, write
from tests.broker.handlers.wire import Wire, produce

from catchment.testing.embedded import Broker

ACKNOWLEDGED = 2
NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition
_DEADLINE_S = 150


class Described(NamedTuple):
    start_offset: int
    lag: int
    error: ErrorCode = NONE


def find_group(wire: Wire, group_id: str = "g") -> None:
    """What every client does first; the first time, it makes the topic of the groups."""
    (found,) = wire.ask(FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(group_id,)), 6).coordinators
    assert found.error_code is NONE


def describe(
    wire: Wire, topics: Mapping[str, tuple[int, ...]] | None = None, *, group_id: str = "g", version: int = 1
) -> dict[tuple[str, int], Described]:
    asked = None
    if topics is not None:
        asked = tuple(
            describing.DescribeShareGroupOffsetsRequestTopic(
                topic_name=TopicName(name), partitions=tuple(i32(number) for number in numbers)
            )
            for name, numbers in topics.items()
        )
    group = describing.DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(group_id), topics=asked)
    deadline_s = time.monotonic() + _DEADLINE_S
    while True:
        (answered,) = wire.ask(describing.DescribeShareGroupOffsetsRequest(groups=(group,)), version).groups
        # After a start the coordinator asks clients to come again until it has read its log.
        if answered.error_code is not ErrorCode.coordinator_load_in_progress or time.monotonic() > deadline_s:
            break
    assert (answered.group_id, answered.error_code) == (group_id, NONE)
    return {
        (topic.topic_name, one.partition_index): Described(one.start_offset, one.lag, one.error_code)
        for topic in answered.topics
        for one in topic.partitions
    }


def alter(
    wire: Wire, starts: Mapping[tuple[str, int], int], group_id: str = "g"
) -> ErrorCode | dict[tuple[str, int], ErrorCode]:
    """The outcome of each partition, or of all."""
    names = sorted({name for name, _ in starts})
    topics = tuple(
        altering.AlterShareGroupOffsetsRequestTopic(
            topic_name=TopicName(name),
            partitions=tuple(
                altering.AlterShareGroupOffsetsRequestPartition(partition_index=i32(number), start_offset=i64(offset))
                for (topic, number), offset in starts.items()
                if topic == name
            ),
        )
        for name in names
    )
    request = altering.AlterShareGroupOffsetsRequest(group_id=GroupId(group_id), topics=topics)
    answer = wire.ask(request, 0)
    if answer.error_code is not NONE:
        assert answer.responses == ()
        failed: ErrorCode = answer.error_code
        return failed
    return {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in answer.responses
        for one in topic.partitions
    }


def delete(wire: Wire, *names: str, group_id: str = "g") -> ErrorCode | dict[str, ErrorCode]:
    """The outcome of each topic, or of all."""
    topics = tuple(deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=TopicName(name)) for name in names)
    answer = wire.ask(deleting.DeleteShareGroupOffsetsRequest(group_id=GroupId(group_id), topics=topics), 0)
    if answer.error_code is not NONE:
        failed: ErrorCode = answer.error_code
        return failed
    return {topic.topic_name: topic.error_code for topic in answer.responses}


def make_classic_group(wire: Wire, group_id: str) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    timeout = i32Timedelta.parse(timedelta(seconds=10))
    request = JoinGroupRequest(
        group_id=GroupId(group_id),
        session_timeout=timeout,
        rebalance_timeout=timeout,
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )
    # Before version 4 a member need not come back with the id that it is given.
    assert wire.ask(request, 3).error_code is NONE


def heartbeat(wire: Wire, member_id: str, *, epoch: int) -> None:
    """Epoch 0 joins, -1 leaves."""
    request = ShareGroupHeartbeatRequest(
        group_id=GroupId("g"),
        member_id=member_id,
        member_epoch=i32(epoch),
        rack_id=None,
        subscribed_topic_names=(TopicName("a"),),
    )
    assert wire.ask(request, 1).error_code is NONE


@pytest.mark.parametrize("version", [0, 1])
def test_a_start_that_was_set_is_described_with_what_lies_before_it(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a", 2)
    produce(broker, "a", [b"x"] * 10)
    find_group(wire)
    assert alter(wire, {("a", 0): 4, ("a", 1): 0}) == {("a", 0): NONE, ("a", 1): NONE}
    expected = {("a", 0): 6, ("a", 1): 0} if version == 1 else {("a", 0): -1, ("a", 1): -1}
    starts = {("a", 0): 4, ("a", 1): 0}
    for topics in (None, {"a": (0, 1)}):
        found = describe(wire, topics, version=version)
        assert found == {key: Described(starts[key], expected[key]) for key in starts}


def test_what_is_delivered_for_good_does_not_lag(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    produce(broker, "a", [b"x"] * 10)
    find_group(wire)
    alter(wire, {("a", 0): 2})
    topic_id = topic_id_of(wire)
    assert write(wire, topic_id, (4, 6, ACKNOWLEDGED, 1), complete_count=3) is NONE
    assert describe(wire) == {("a", 0): Described(2, 5)}


def test_setting_the_start_again_forgets_what_was_delivered(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    produce(broker, "a", [b"x"] * 10)
    find_group(wire)
    alter(wire, {("a", 0): 8})
    write(wire, topic_id_of(wire), (8, 9, ACKNOWLEDGED, 1), start_offset=10, complete_count=0)
    alter(wire, {("a", 0): 1})
    assert describe(wire) == {("a", 0): Described(1, 9)}


def test_a_group_that_has_read_nothing_is_described_without_starts(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    find_group(wire)
    assert describe(wire) == {}
    assert describe(wire, {"a": (0, 1), "nowhere": (0,)}) == {
        ("a", 0): Described(-1, -1),
        ("a", 1): Described(-1, -1, UNKNOWN),
        ("nowhere", 0): Described(-1, -1),
    }


def test_partitions_that_do_not_exist_fail_alone(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    find_group(wire)
    outcomes = alter(wire, {("a", 0): 3, ("a", 1): 3, ("a", -1): 3, ("nowhere", 0): 3})
    assert outcomes == {("a", 0): NONE, ("a", 1): UNKNOWN, ("a", -1): UNKNOWN, ("nowhere", 0): UNKNOWN}
    assert describe(wire) == {("a", 0): Described(3, -3)}


def test_deleted_offsets_are_gone_and_cannot_be_deleted_twice(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    broker.create_topic("b")
    find_group(wire)
    alter(wire, {("a", 0): 3, ("a", 1): 4, ("b", 0): 5})
    assert delete(wire, "a", "nowhere") == {"a": NONE, "nowhere": UNKNOWN}
    assert describe(wire) == {("b", 0): Described(5, -5)}
    assert describe(wire, {"a": (0,)}) == {("a", 0): Described(-1, -1)}
    assert delete(wire, "a") == {"a": UNKNOWN}


def test_only_share_groups_have_such_offsets(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    find_group(wire, "classic")
    make_classic_group(wire, "classic")
    assert alter(wire, {("a", 0): 3}, group_id="classic") is ErrorCode.group_id_not_found
    assert delete(wire, "a", group_id="classic") is ErrorCode.group_id_not_found
    assert delete(wire, "a", group_id="unheard-of") is ErrorCode.group_id_not_found
    assert alter(wire, {("a", 0): 3}, group_id="") is ErrorCode.invalid_group_id
    assert delete(wire, "a", group_id="") is ErrorCode.invalid_group_id


def test_a_group_keeps_its_offsets_while_it_has_members(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    find_group(wire)
    alter(wire, {("a", 0): 3})
    heartbeat(wire, "m", epoch=0)
    assert alter(wire, {("a", 0): 1}) is ErrorCode.non_empty_group
    assert delete(wire, "a") is ErrorCode.non_empty_group
    assert describe(wire) == {("a", 0): Described(3, -3)}
    heartbeat(wire, "m", epoch=-1)
    assert alter(wire, {("a", 0): 1}) == {("a", 0): NONE}
    assert delete(wire, "a") == {"a": NONE}


def test_offsets_survive_a_kill(broker: Broker) -> None:
    broker.create_topic("a")
    with Wire(broker) as wire:
        find_group(wire)
        alter(wire, {("a", 0): 7})
    broker.kill()
    broker.start()
    with Wire(broker) as wire:
        find_group(wire)
        assert describe(wire) == {("a", 0): Described(7, -7)}
