"""ListGroups, DescribeGroups, DeleteGroups and OffsetDelete over the wire, at every version."""

from collections.abc import Iterator

import pytest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32
from tests.broker.handlers.group_requests import (
    become_member,
    commit,
    describe,
    find_coordinator,
    listing,
    offsets,
    sync,
)
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5}) as running:
        running.create_topic("a", 2)
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        find_coordinator(connected)
        yield connected


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_at_every_version(wire: Wire, version: int) -> None:
    sync(wire, become_member(wire))
    commit(wire, 1, group="by-hand")
    answer = listing(wire, version=version)
    assert answer.error_code is ErrorCode.none
    assert {(group.group_id, group.protocol_type) for group in answer.groups} == {("g", "consumer"), ("by-hand", "")}


def test_groups_are_filtered_by_state_and_type(wire: Wire) -> None:
    sync(wire, become_member(wire))
    commit(wire, 1, group="by-hand")
    assert [group.group_id for group in listing(wire, states=("stable",)).groups] == ["g"]
    assert [group.group_state for group in listing(wire, states=("Empty", "Dead")).groups] == ["Empty"]
    assert len(listing(wire, types=("Classic",)).groups) == 2
    assert listing(wire, types=("share",)).groups == ()


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_at_every_version(wire: Wire, version: int) -> None:
    joined = become_member(wire)
    assert describe(wire, version=version).group_state == "CompletingRebalance"
    sync(wire, joined)
    group = describe(wire, version=version)
    assert (group.error_code, group.group_state) == (ErrorCode.none, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "test", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"subscription", b"share")


def test_a_group_that_does_not_exist_is_dead_and_since_version_6_an_error(wire: Wire) -> None:
    old, new = describe(wire, "none", version=5), describe(wire, "none", version=6)
    assert (old.error_code, old.group_state) == (ErrorCode.none, "Dead")
    assert (new.error_code, new.group_state) == (ErrorCode.group_id_not_found, "Dead")
    assert "none" in new.error_message


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_at_every_version(wire: Wire, version: int) -> None:
    become_member(wire)
    commit(wire, 1, group="by-hand")
    names = tuple(GroupId(name) for name in ("g", "by-hand", "none"))
    answer = wire.ask(DeleteGroupsRequest(groups_names=names), version)
    assert [result.error_code for result in answer.results] == [
        ErrorCode.non_empty_group,
        ErrorCode.none,
        ErrorCode.group_id_not_found,
    ]
    assert offsets(wire, "a", group="by-hand") == [-1, -1]


def test_offsets_are_deleted_by_topic(wire: Wire) -> None:
    commit(wire, 1)
    commit(wire, 2, partition=1)
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=TopicName(name), partitions=(OffsetDeleteRequestPartition(partition_index=i32(0)),)
        )
        for name in ("a", "nowhere")
    )
    answer = wire.ask(OffsetDeleteRequest(group_id=GroupId("g"), topics=topics), 0)
    assert answer.error_code is ErrorCode.none
    assert [one.error_code for topic in answer.topics for one in topic.partitions] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert offsets(wire, "a") == [-1, 2]
    missing = wire.ask(OffsetDeleteRequest(group_id=GroupId("none"), topics=topics), 0)
    assert missing.error_code is ErrorCode.group_id_not_found
