"""OffsetCommit and OffsetFetch over the wire, at every version, and across restarts and faults."""

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.types import GroupId
from tests.broker.handlers.group_requests import (
    become_member,
    commit,
    fetch_group,
    find_coordinator,
    leave,
    offsets,
    sync,
)
from tests.broker.handlers.log_requests import append, batch
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture(autouse=True)
def coordinator(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    broker.create_topic("b", 2)
    find_coordinator(wire)


@pytest.mark.parametrize("version", range(2, 11))
def test_an_offset_is_committed_at_every_version(wire: Wire, version: int) -> None:
    assert commit(wire, 42, version=version) is ErrorCode.none
    assert offsets(wire, "a") == [42, -1]


@pytest.mark.parametrize("version", range(1, 11))
def test_an_offset_is_fetched_at_every_version(wire: Wire, version: int) -> None:
    commit(wire, 42, metadata="why")
    answered = fetch_group(wire, "g", "a", version=version)
    found, missing = answered.topics[0].partitions
    assert (found.committed_offset, found.metadata, found.error_code) == (42, "why", ErrorCode.none)
    assert (missing.committed_offset, missing.metadata, missing.error_code) == (-1, "", ErrorCode.none)


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_of_a_group_are_fetched_without_naming_topics(wire: Wire, version: int) -> None:
    commit(wire, 1, topic="a")
    commit(wire, 2, topic="b", partition=1)
    answered = fetch_group(wire, everything=True, version=version)
    assert [one.committed_offset for topic in answered.topics for one in topic.partitions] == [1, 2]


def test_many_groups_are_answered_at_once(wire: Wire) -> None:
    commit(wire, 1, group="g")
    commit(wire, 2, group="h")
    groups = tuple(OffsetFetchRequestGroup(group_id=GroupId(name), topics=None) for name in ("g", "h", "none"))
    answer = wire.ask(OffsetFetchRequest(groups=groups, require_stable=True), 9)
    assert [
        [one.committed_offset for topic in group.topics for one in topic.partitions] for group in answer.groups
    ] == [[1], [2], []]


def test_topics_that_do_not_exist_fail_alone(wire: Wire) -> None:
    assert commit(wire, 1, topic="nowhere") is ErrorCode.unknown_topic_or_partition
    assert offsets(wire, "nowhere") == [-1, -1]


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("partition", [-1, 2, 2**31 - 1])
def test_partitions_that_do_not_exist_fail_alone(wire: Wire, partition: int, version: int) -> None:
    assert commit(wire, 1, partition=partition, version=version) is ErrorCode.unknown_topic_or_partition
    assert commit(wire, 2, partition=1, version=version) is ErrorCode.none
    found = fetch_group(wire, everything=True).topics[0].partitions
    assert [(one.partition_index, one.committed_offset) for one in found] == [(1, 2)]


def test_an_offset_is_fetched_with_the_leader_epoch_that_it_was_committed_with(wire: Wire) -> None:
    commit(wire, 1, partition=0, leader_epoch=0)
    commit(wire, 1, partition=1, leader_epoch=-1)
    found = fetch_group(wire, "g", "a").topics[0].partitions
    assert [one.committed_leader_epoch for one in found] == [0, -1]


def test_too_much_metadata_is_rejected(wire: Wire) -> None:
    assert commit(wire, 1, metadata="x" * 4097) is ErrorCode.offset_metadata_too_large
    assert commit(wire, 1, metadata=None) is ErrorCode.none


def test_offsets_and_groups_survive_a_restart_and_a_crash(broker: Broker, wire: Wire) -> None:
    commit(wire, 1)
    broker.restart()
    with Wire(broker) as again:
        find_coordinator(again)
        assert offsets(again, "a") == [1, -1]
        commit(again, 2, partition=1)
    broker.kill()
    broker.start()
    with Wire(broker) as again:
        find_coordinator(again)
        assert offsets(again, "a") == [1, 2]


def test_a_recreated_topic_has_no_offsets(broker: Broker, wire: Wire) -> None:
    commit(wire, 1, topic="a")
    commit(wire, 2, topic="b")
    broker.delete_topic("a")
    broker.create_topic("a", 2)
    assert offsets(wire, "a", "b") == [-1, -1, 2, -1]


def test_a_full_disk_refuses_commits_until_there_is_room_and_loses_none(broker: Broker, wire: Wire) -> None:
    commit(wire, 1)
    broker.faults.fill_disk()
    assert commit(wire, 2) is ErrorCode.not_coordinator
    broker.faults.clear()
    find_coordinator(wire)
    assert offsets(wire, "a") == [1, -1]
    assert commit(wire, 3) is ErrorCode.none
    assert offsets(wire, "a") == [3, -1]


def test_a_commit_whose_sync_failed_is_never_acknowledged_nor_read(broker: Broker, wire: Wire) -> None:
    commit(wire, 1)
    broker.faults.fail_disk_syncs()
    assert commit(wire, 2) is ErrorCode.not_coordinator
    assert fetch_group(wire, "g", "a").error_code is ErrorCode.not_coordinator


def test_clients_may_not_write_to_the_offsets_topic(wire: Wire) -> None:
    refused = append(wire, "__consumer_offsets", batch(b"x"), version=12)
    assert refused.error_code is ErrorCode.invalid_topic_exception


def test_members_commit_with_their_generation(wire: Wire) -> None:
    joined = become_member(wire)
    sync(wire, joined)
    assert commit(wire, 1) is ErrorCode.unknown_member_id
    assert commit(wire, 1, joined=joined) is ErrorCode.none
    leave(wire, joined.member_id)
    assert commit(wire, 2, joined=joined) is ErrorCode.unknown_member_id
    assert commit(wire, 2) is ErrorCode.none
