"""TxnOffsetCommit over the wire, and what OffsetFetch tells meanwhile."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32
from tests.broker.handlers.group_requests import become_member, commit, fetch_group, find_coordinator, offsets, sync
from tests.broker.handlers.transactional_producer import V1, V2, TransactionalProducer, Versions
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

from catchment.protocol.adapters.offset_fetch import OffsetFetchRequestTopics
from catchment.testing.embedded import Broker

BOTH = pytest.mark.parametrize("versions", [V1, V2], ids=["v1", "v2"])


@pytest.fixture
def producer(broker: Broker, wire: Wire, versions: Versions) -> TransactionalProducer:
    broker.create_topic("a", 2)
    find_coordinator(wire)
    made = TransactionalProducer(wire, versions)
    made.begin_life()
    return made


def begin(producer: TransactionalProducer) -> None:
    """Say that offsets of the group will come, where the client has to."""
    if producer.versions.adds:
        assert producer.add_group() is ErrorCode.none


def stable_offset(wire: Wire, *, requires_stable: bool = True, version: int = 8) -> tuple[ErrorCode, int]:
    """The response for partition 0 of topic a."""
    topic = OffsetFetchRequestTopics(topic_id=None, name=TopicName("a"), partition_indexes=(i32(0),))
    group = OffsetFetchRequestGroup(group_id=GroupId("g"), topics=(topic,))
    answer = wire.ask(OffsetFetchRequest(groups=(group,), require_stable=requires_stable), version)
    found = answer.groups[0].topics[0].partitions[0]
    return found.error_code, found.committed_offset


def until_stable(wire: Wire) -> int:
    wait_until(lambda: stable_offset(wire)[0] is not ErrorCode.unstable_offset_commit, "the transaction hangs")
    code, offset = stable_offset(wire)
    assert code is ErrorCode.none
    return offset


@BOTH
@pytest.mark.parametrize(("is_commit", "expected"), [(True, 9), (False, 4)])
def test_offsets_count_when_the_transaction_commits(
    wire: Wire, producer: TransactionalProducer, is_commit: bool, expected: int
) -> None:
    commit(wire, 4)
    begin(producer)
    assert producer.commit_offset(9) is ErrorCode.none
    assert offsets(wire, "a") == [4, -1]
    assert producer.end(is_commit=is_commit) is ErrorCode.none
    assert until_stable(wire) == expected
    assert offsets(wire, "a") == [expected, -1]


@BOTH
def test_a_client_that_requires_stable_offsets_has_to_wait(wire: Wire, producer: TransactionalProducer) -> None:
    commit(wire, 4)
    begin(producer)
    producer.commit_offset(9)
    assert stable_offset(wire, version=7) == (ErrorCode.unstable_offset_commit, -1)
    assert stable_offset(wire) == (ErrorCode.unstable_offset_commit, -1)
    assert stable_offset(wire, requires_stable=False) == (ErrorCode.none, 4)


@BOTH
def test_pending_offsets_survive_a_restart_of_the_broker(
    broker: Broker, wire: Wire, producer: TransactionalProducer
) -> None:
    begin(producer)
    producer.commit_offset(9)
    broker.restart()
    with Wire(broker) as again:
        find_coordinator(again)
        assert stable_offset(again) == (ErrorCode.unstable_offset_commit, -1)
        producer.wire = again
        assert producer.end(is_commit=True) is ErrorCode.none
        assert until_stable(again) == 9


@pytest.mark.parametrize("versions", [Versions(3, version, 4) for version in range(6)], ids=lambda one: f"v{one[1]}")
def test_every_version_commits(wire: Wire, producer: TransactionalProducer) -> None:
    producer.add_group()
    assert producer.commit_offset(9) is ErrorCode.none
    producer.end(is_commit=True)
    assert until_stable(wire) == 9


@pytest.mark.parametrize(
    ("versions", "code"),
    [(Versions(3, 3, 4), ErrorCode.invalid_txn_state), (V1, ErrorCode.transaction_abortable)],
    ids=["v3", "v4"],
)
def test_a_group_that_was_not_added_is_rejected(wire: Wire, producer: TransactionalProducer, code: ErrorCode) -> None:
    producer.add("a")
    assert producer.commit_offset(9) is code
    assert until_stable(wire) == -1


@BOTH
def test_offsets_that_come_after_the_end_are_rejected_and_nothing_hangs(
    wire: Wire, producer: TransactionalProducer
) -> None:
    epoch = producer.epoch
    begin(producer)
    producer.commit_offset(9)
    producer.end(is_commit=True)
    assert until_stable(wire) == 9
    assert producer.commit_offset(10, epoch=epoch) in (
        ErrorCode.transaction_abortable,
        ErrorCode.invalid_producer_epoch,
    )
    assert until_stable(wire) == 9


@BOTH
def test_a_fenced_producer_commits_nothing_and_the_group_goes_on(wire: Wire, producer: TransactionalProducer) -> None:
    begin(producer)
    producer.commit_offset(9)
    TransactionalProducer(wire, producer.versions).begin_life()
    assert producer.commit_offset(10) is ErrorCode.invalid_producer_epoch
    assert until_stable(wire) == -1
    assert commit(wire, 3) is ErrorCode.none


@BOTH
def test_a_member_of_an_older_generation_is_rejected(wire: Wire, producer: TransactionalProducer) -> None:
    joined = become_member(wire)
    sync(wire, joined)
    begin(producer)
    who = {"generation": joined.generation_id, "member_id": joined.member_id}
    assert producer.commit_offset(9, **who) is ErrorCode.none
    assert producer.commit_offset(9, **{**who, "generation": 77}) is ErrorCode.illegal_generation
    assert producer.commit_offset(9, **{**who, "member_id": "?"}) is ErrorCode.unknown_member_id


@BOTH
def test_a_topic_that_is_not_there_and_a_group_without_a_name_are_rejected(producer: TransactionalProducer) -> None:
    begin(producer)
    assert producer.commit_offset(9, topic="none") is ErrorCode.unknown_topic_or_partition
    assert producer.commit_offset(9, group="") is ErrorCode.invalid_group_id


@BOTH
@pytest.mark.parametrize("partition", [-1, 2, 2**31 - 1])
def test_partitions_that_do_not_exist_fail_alone(wire: Wire, producer: TransactionalProducer, partition: int) -> None:
    begin(producer)
    assert producer.commit_offset(9, partition=partition) is ErrorCode.unknown_topic_or_partition
    assert producer.commit_offset(9) is ErrorCode.none
    producer.end(is_commit=True)
    assert until_stable(wire) == 9
    found = fetch_group(wire, everything=True).topics[0].partitions
    assert [one.partition_index for one in found] == [0]
