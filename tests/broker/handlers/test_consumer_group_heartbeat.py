"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire, at every version."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta
from tests.broker.handlers.group_requests import become_member, describe, find_coordinator, listing
from tests.broker.handlers.log_requests import topic_id
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

NEWEST = 1


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5}
    with Broker(settings=settings) as running:
        running.create_topic("a", 2)
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        find_coordinator(connected)
        yield connected


def beat(wire: Wire, member_id: str, epoch: int, *, group: str = "g", version: int = NEWEST, **options: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GroupId(group),
        member_id=member_id,
        member_epoch=i32(epoch),
        **{"topic_partitions": None, **options},
    )
    return wire.ask(request, version)


def join(wire: Wire, member_id: str, *, version: int = NEWEST, **options: Any) -> Any:
    subscription: dict[str, Any] = (
        {} if "subscribed_topic_regex" in options else {"subscribed_topic_names": (TopicName("a"),)}
    )
    return beat(
        wire,
        member_id,
        0,
        version=version,
        rebalance_timeout=i32Timedelta.parse(timedelta(seconds=60)),
        topic_partitions=(),
        **subscription,
        **options,
    )


def describe_consumers(wire: Wire, group: str = "g", *, version: int = NEWEST) -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=True)
    (described,) = wire.ask(request, version).groups
    return described


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_a_member_joins_reads_and_leaves_at_every_version(wire: Wire, version: int) -> None:
    joined = join(wire, "me", version=version)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (ErrorCode.none, "me", 1)
    assert joined.heartbeat_interval == timedelta(seconds=5)
    ((topic,),) = [joined.assignment.topic_partitions]
    assert (topic.topic_id, topic.partitions) == (topic_id(wire, "a"), (0, 1))
    quiet = beat(wire, "me", 1, version=version)
    assert (quiet.error_code, quiet.assignment) == (ErrorCode.none, None)
    left = beat(wire, "me", -1, version=version)
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)
    assert beat(wire, "me", 1, version=version).error_code is ErrorCode.unknown_member_id


def test_version_0_makes_ids_for_members_that_have_none(wire: Wire) -> None:
    joined = join(wire, "", version=0)
    assert joined.error_code is ErrorCode.none
    assert len(joined.member_id) == 36
    assert join(wire, "", version=1).error_code is ErrorCode.invalid_request


def test_owned_partitions_advance_a_member(wire: Wire) -> None:
    join(wire, "one")
    join(wire, "two")
    owned = TopicPartitions(topic_id=topic_id(wire, "a"), partitions=(i32(0), i32(1)))
    first = beat(wire, "one", 1, topic_partitions=(owned,))
    ((kept,),) = [first.assignment.topic_partitions]
    assert len(kept.partitions) == 1
    left = TopicPartitions(topic_id=kept.topic_id, partitions=kept.partitions)
    assert beat(wire, "one", 1, topic_partitions=(left,)).member_epoch == 2
    second = beat(wire, "two", 2)
    ((got,),) = [second.assignment.topic_partitions]
    assert {*got.partitions, *kept.partitions} == {0, 1}


def test_a_regular_expression_follows_new_topics(broker: Broker, wire: Wire) -> None:
    joined = join(wire, "me", subscribed_topic_regex="a.*")
    assert len(joined.assignment.topic_partitions) == 1
    broker.create_topic("ab", 1)
    assert len(beat(wire, "me", 1).assignment.topic_partitions) == 2
    refused = join(wire, "you", subscribed_topic_regex="(")
    assert refused.error_code is ErrorCode.invalid_regular_expression


def test_errors_come_with_a_message(wire: Wire) -> None:
    refused = beat(wire, "me", 0, rebalance_timeout=i32Timedelta.parse(timedelta(seconds=1)))
    assert (refused.error_code, refused.member_id) == (ErrorCode.invalid_request, None)
    assert "owns no partition" in refused.error_message
    assert beat(wire, "me", 1).error_code is ErrorCode.group_id_not_found
    assert beat(wire, "me", 1, group="").error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_a_group_is_described_at_every_version(wire: Wire, version: int) -> None:
    join(wire, "me", rack_id="r", instance_id="i")
    group = describe_consumers(wire, version=version)
    assert (group.error_code, group.group_state, group.assignor_name) == (ErrorCode.none, "Stable", "uniform")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("me", "i", "r", 1)
    assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("a",), "")
    for assignment in (member.assignment, member.target_assignment):
        assert [(one.topic_name, one.partitions) for one in assignment.topic_partitions] == [("a", (0, 1))]
    assert member.member_type == (-1 if version == 0 else 1)


def test_a_group_of_another_kind_is_not_found(wire: Wire) -> None:
    assert describe_consumers(wire, "none").error_code is ErrorCode.group_id_not_found
    become_member(wire, group="classic")
    refused = describe_consumers(wire, "classic")
    assert (refused.error_code, refused.group_state) == (ErrorCode.group_id_not_found, "")
    assert "not a consumer group" in refused.error_message
    assert describe_consumers(wire, "").error_code is ErrorCode.invalid_group_id


def test_a_consumer_group_is_not_described_as_a_classic_group(wire: Wire) -> None:
    join(wire, "me")
    old, new = describe(wire, version=5), describe(wire, version=6)
    assert (old.error_code, old.group_state) == (ErrorCode.none, "Dead")
    assert new.error_code is ErrorCode.group_id_not_found


def test_groups_are_listed_with_their_types(wire: Wire) -> None:
    join(wire, "me")
    become_member(wire, group="other")
    found = {(one.group_id, one.protocol_type, one.group_type) for one in listing(wire).groups}
    assert found == {("g", "consumer", "consumer"), ("other", "consumer", "classic")}
    assert [one.group_id for one in listing(wire, types=("Consumer",)).groups] == ["g"]
    assert [one.group_id for one in listing(wire, states=("stable",)).groups] == ["g"]


def test_a_group_outlives_a_restart_of_the_broker(broker: Broker, wire: Wire) -> None:
    joined = join(wire, "me")
    broker.restart()
    with Wire(broker) as again:
        find_coordinator(again)
        quiet = beat(again, "me", joined.member_epoch)
        assert (quiet.error_code, quiet.member_epoch) == (ErrorCode.none, 1)
