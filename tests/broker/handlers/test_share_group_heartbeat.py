"""ShareGroupHeartbeat and ShareGroupDescribe over the wire, and what other group APIs say about share groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.read_share_group_state_summary.v1 import request as summary
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32
from tests.broker.handlers.group_requests import commit, describe, find_coordinator, join, listing
from tests.broker.handlers.log_requests import topic_id
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

LEAVING = -1
_DEADLINE_S = 150


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"offsets.topic.num.partitions": 5}) as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        find_coordinator(connected)
        yield connected


def beat(wire: Wire, member_id: str, epoch: int, *topics: str, group: str = "g") -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=GroupId(group),
        member_id=member_id,
        member_epoch=i32(epoch),
        subscribed_topic_names=tuple(map(TopicName, topics)) or None,
    )
    return wire.ask(request, 1)


def assigned(answer: Any) -> dict[UUID, list[int]] | None:
    assert answer.error_code is ErrorCode.none, answer.error_message
    if answer.assignment is None:
        return None
    return {topic.topic_id: list(topic.partitions) for topic in answer.assignment.topic_partitions}


def described(wire: Wire, group: str = "g") -> Any:
    request = ShareGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=True)
    (answer,) = wire.ask(request, 1).groups
    return answer


def state_epoch(wire: Wire, topic: UUID, group: str = "g") -> int | ErrorCode:
    """The epoch of a partition's share state; 0 where there is none."""
    found = wire.ask(FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(group,)), 6)
    assert found.coordinators[0].error_code is ErrorCode.none
    request = summary.ReadShareGroupStateSummaryRequest(
        group_id=GroupId(group),
        topics=(
            summary.ReadStateSummaryData(
                topic_id=topic, partitions=(summary.PartitionData(partition=i32(0), leader_epoch=i32(0)),)
            ),
        ),
    )
    partition = wire.ask(request, 1).results[0].partitions[0]
    return int(partition.state_epoch) if partition.error_code is ErrorCode.none else ErrorCode(partition.error_code)


def delete(wire: Wire, group: str = "g") -> ErrorCode:
    return ErrorCode(wire.ask(DeleteGroupsRequest(groups_names=(GroupId(group),)), 2).results[0].error_code)


def test_a_member_joins_shares_and_leaves(wire: Wire) -> None:
    topic = topic_id(wire, "t")
    first = beat(wire, "a", 0, "t")
    assert assigned(first) == {topic: [0, 1]}
    assert first.member_id == "a"
    assert first.heartbeat_interval == timedelta(seconds=5)
    second = beat(wire, "b", 0, "t")
    moved = beat(wire, "a", first.member_epoch)
    assert sorted([assigned(moved), assigned(second)], key=str) == [{topic: [0]}, {topic: [1]}]
    assert beat(wire, "b", LEAVING).member_epoch == LEAVING
    assert assigned(beat(wire, "a", moved.member_epoch)) == {topic: [0, 1]}


def test_a_heartbeat_without_news_has_no_assignment(wire: Wire) -> None:
    epoch = beat(wire, "a", 0, "t").member_epoch
    again = beat(wire, "a", epoch)
    assert (again.member_epoch, again.assignment) == (epoch, None)


def test_a_partition_has_share_state_before_it_is_assigned(wire: Wire) -> None:
    topic = topic_id(wire, "t")
    assert state_epoch(wire, topic) == 0
    beat(wire, "a", 0, "t")
    assert state_epoch(wire, topic) == 1


def test_an_error_comes_with_its_reason(wire: Wire) -> None:
    unknown = beat(wire, "a", 3)
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.group_id_not_found, "Share group g not found.")
    assert beat(wire, "", 0, "t").error_code is ErrorCode.invalid_request
    beat(wire, "a", 0, "t")
    assert beat(wire, "b", 3).error_code is ErrorCode.unknown_member_id


def test_a_group_is_described_with_its_members(wire: Wire) -> None:
    beat(wire, "a", 0, "t", "not-yet")
    group = described(wire)
    assert (group.error_code, group.group_state, group.assignor_name) == (ErrorCode.none, "Stable", "simple")
    assert group.group_epoch == group.assignment_epoch == 2
    assert group.authorized_operations > 0
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id) == ("a", 2, "test")
    assert member.client_host == "/127.0.0.1"
    assert member.subscribed_topic_names == ("not-yet", "t")
    assert [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions] == [("t", (0, 1))]


def test_groups_that_are_not_share_groups_cannot_be_described_as_such(wire: Wire) -> None:
    commit(wire, 1, topic="t", group="classic")
    for group, message in (("classic", "Group classic is not a share group."), ("none", "Group none not found.")):
        answer = described(wire, group)
        assert (answer.error_code, answer.error_message) == (ErrorCode.group_id_not_found, message)
    assert described(wire, "").error_code is ErrorCode.invalid_group_id


def test_a_name_belongs_to_one_kind_of_group(wire: Wire) -> None:
    commit(wire, 1, topic="t", group="classic")
    assert beat(wire, "a", 0, "t", group="classic").error_code is ErrorCode.group_id_not_found
    beat(wire, "a", 0, "t")
    assert join(wire, group="g").error_code is not ErrorCode.none
    assert describe(wire, "g").error_code is ErrorCode.group_id_not_found


def test_share_groups_are_listed_as_such(wire: Wire) -> None:
    beat(wire, "a", 0, "t")
    (group,) = listing(wire, types=("share",)).groups
    assert (group.group_id, group.protocol_type, group.group_state) == ("g", "share", "Stable")
    assert group.group_type.lower() == "share"


def test_a_group_is_deleted_with_its_share_state(wire: Wire) -> None:
    topic = topic_id(wire, "t")
    beat(wire, "a", 0, "t")
    assert delete(wire) is ErrorCode.non_empty_group
    beat(wire, "a", LEAVING)
    assert delete(wire) is ErrorCode.none
    assert described(wire).error_code is ErrorCode.group_id_not_found
    assert state_epoch(wire, topic) == 0
    assert delete(wire) is ErrorCode.group_id_not_found
    assert assigned(beat(wire, "a", 0, "t")) == {topic: [0, 1]}


def test_a_topic_that_comes_and_goes_is_followed(broker: Broker, wire: Wire) -> None:
    topic = topic_id(wire, "t")
    epoch = beat(wire, "a", 0, "t", "u").member_epoch
    broker.create_topic("u")
    grown = beat(wire, "a", epoch)
    assert assigned(grown) == {topic: [0, 1], topic_id(wire, "u"): [0]}
    broker.delete_topic("t")
    assert assigned(beat(wire, "a", grown.member_epoch)) == {topic_id(wire, "u"): [0]}


def test_a_group_survives_a_restart(broker: Broker, wire: Wire) -> None:
    epoch = beat(wire, "a", 0, "t").member_epoch
    broker.restart()
    with Wire(broker) as again:
        deadline_s = time.monotonic() + _DEADLINE_S
        answer = beat(again, "a", epoch)
        while answer.error_code is ErrorCode.coordinator_load_in_progress and time.monotonic() < deadline_s:
            answer = beat(again, "a", epoch)
        assert (answer.error_code, answer.member_epoch, answer.assignment) == (ErrorCode.none, epoch, None)
        assert described(again).group_state == "Stable"
