"""OffsetCommit and OffsetFetch by members of a consumer group over the wire: with their epochs, in the versions that have them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta
from tests.broker.handlers.group_requests import commit, find_coordinator
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

FIRST_WITH_EPOCHS = 9


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"offsets.topic.num.partitions": 5}) as running:
        running.create_topic("a", 2)
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        find_coordinator(connected)
        yield connected


def join(wire: Wire) -> Any:
    return wire.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=GroupId("g"),
            member_id="me",
            member_epoch=i32(0),
            rebalance_timeout=i32Timedelta.parse(timedelta(seconds=60)),
            subscribed_topic_names=(TopicName("a"),),
            topic_partitions=(),
        ),
        1,
    )


def member(epoch: int, member_id: str = "me") -> Any:
    return SimpleNamespace(generation_id=i32(epoch), member_id=member_id)


def fetch_as(wire: Wire, member_id: str | None, epoch: int, version: int) -> ErrorCode:
    group = OffsetFetchRequestGroup(group_id=GroupId("g"), member_id=member_id, member_epoch=i32(epoch), topics=None)
    code: ErrorCode = wire.ask(OffsetFetchRequest(groups=(group,)), version).groups[0].error_code
    return code


@pytest.mark.parametrize("version", [9, 10])
def test_a_member_commits_and_fetches_with_its_epoch(wire: Wire, version: int) -> None:
    epoch = join(wire).member_epoch
    assert commit(wire, 3, joined=member(epoch), version=version) is ErrorCode.none
    assert commit(wire, 3, joined=member(epoch + 1), version=version) is ErrorCode.stale_member_epoch
    assert commit(wire, 3, joined=member(epoch, "you"), version=version) is ErrorCode.unknown_member_id
    assert commit(wire, 3, version=version) is ErrorCode.unknown_member_id
    assert fetch_as(wire, "me", epoch, version) is ErrorCode.none
    assert fetch_as(wire, None, -1, version) is ErrorCode.none
    assert fetch_as(wire, "me", epoch + 1, version) is ErrorCode.stale_member_epoch
    assert fetch_as(wire, "you", epoch, version) is ErrorCode.unknown_member_id


def test_versions_without_epochs_are_not_for_members_of_the_consumer_protocol(wire: Wire) -> None:
    epoch = join(wire).member_epoch
    assert commit(wire, 3, joined=member(epoch), version=8) is ErrorCode.unsupported_version


@pytest.mark.parametrize("version", [8, 9])
def test_an_unknown_group_gets_the_code_of_the_version(wire: Wire, version: int) -> None:
    expected = ErrorCode.group_id_not_found if version >= FIRST_WITH_EPOCHS else ErrorCode.illegal_generation
    assert commit(wire, 3, joined=member(1), version=version) is expected


def test_a_setting_of_the_group_changes_its_heartbeat_interval(broker: Broker, wire: Wire) -> None:
    assert join(wire).heartbeat_interval == timedelta(seconds=5)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entry = ConfigEntry("consumer.heartbeat.interval.ms", "7000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, "g", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    assert join(wire).heartbeat_interval == timedelta(seconds=7)
