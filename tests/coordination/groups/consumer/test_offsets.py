"""Offsets of consumer groups: commits, fetches, deletion and expiration."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.groups.consumer.consumer_shards import ConsumerClient, ConsumerShard, settle

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.offset_commands import CommitRequest
from catchment.coordination.groups.offsets import TopicPartition
from catchment.coordination.groups.records import OffsetToCommit
from catchment.coordination.groups.state import GroupLimits
from catchment.protocol.errors import ApiError

PRODUCER = Producer(1, 0)


def commit(
    shard: ConsumerShard,
    member_id: str,
    epoch: int,
    *partitions: TopicPartition,
    version: int = 9,
    producer: Producer | None = None,
) -> list[ErrorCode]:
    outcomes: list[ErrorCode] = []
    offsets = [OffsetToCommit(topic, partition, 7, 0, "") for topic, partition in partitions or (("t", 0),)]
    shard.call(
        lambda inner, now: inner.offsets.commit(
            CommitRequest("g", epoch, member_id, None, offsets, producer, version), outcomes.extend, now
        )
    )
    return outcomes


def fetch(shard: ConsumerShard, member_id: str | None, epoch: int) -> Mapping[TopicPartition, object]:
    return shard.call(lambda inner, _: inner.offsets.fetch("g", member_id, epoch))


def test_a_member_commits_with_its_epoch() -> None:
    shard = ConsumerShard(t=1)
    shard.join_consumer("a", "t")
    assert commit(shard, "a", 1) == [ErrorCode.none]
    assert commit(shard, "a", 2) == [ErrorCode.stale_member_epoch]
    assert commit(shard, "b", 1) == [ErrorCode.unknown_member_id]
    assert commit(shard, "", -1) == [ErrorCode.unknown_member_id]
    assert commit(shard, "a", 1, version=8) == [ErrorCode.unsupported_version]


def test_an_older_epoch_is_valid_for_the_partitions_the_member_had_then() -> None:
    shard = ConsumerShard(t=1)
    client = ConsumerClient(shard, "a", "t")
    client.beat()
    shard.set_topic("t", 2)
    client.beat()
    assert client.epoch == 2
    assert commit(shard, "a", 1, ("t", 0), ("t", 1), ("nowhere", 0)) == [
        ErrorCode.none,
        ErrorCode.stale_member_epoch,
        ErrorCode.stale_member_epoch,
    ]


def test_partitions_being_revoked_may_still_be_committed() -> None:
    shard = ConsumerShard(t=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    first.beat()
    second.beat()
    first.beat()
    assert first.reads == {"t": [0]}
    assert commit(shard, "a", first.epoch, ("t", 1)) == [ErrorCode.none]


def test_any_client_may_commit_for_a_group_without_members() -> None:
    shard = ConsumerShard(t=1)
    client = ConsumerClient(shard, "a", "t")
    client.beat()
    client.leave()
    assert commit(shard, "", -1) == [ErrorCode.none]
    assert list(shard.offsets()) == [("t", 0)]


def test_a_group_that_does_not_exist_has_no_epoch_to_commit_with() -> None:
    shard = ConsumerShard(t=1)
    assert commit(shard, "a", 3) == [ErrorCode.group_id_not_found]
    assert commit(shard, "a", 3, version=8) == [ErrorCode.illegal_generation]


def test_transactions_commit_with_and_without_a_member() -> None:
    shard = ConsumerShard(t=1)
    shard.join_consumer("a", "t")
    assert commit(shard, "a", 1, producer=PRODUCER) == [ErrorCode.none]
    assert commit(shard, "", -1, producer=PRODUCER) == [ErrorCode.none]
    assert commit(shard, "a", 2, producer=PRODUCER) == [ErrorCode.illegal_generation]
    assert commit(shard, "b", 1, producer=PRODUCER) == [ErrorCode.unknown_member_id]


def test_a_member_fetches_with_its_epoch_and_an_administrator_without() -> None:
    shard = ConsumerShard(t=1)
    shard.join_consumer("a", "t")
    commit(shard, "a", 1)
    assert list(fetch(shard, "a", 1)) == list(fetch(shard, None, -1)) == [("t", 0)]
    with pytest.raises(ApiError) as stale:
        fetch(shard, "a", 2)
    with pytest.raises(ApiError) as unknown:
        fetch(shard, "b", 1)
    assert (stale.value.code, unknown.value.code) == (ErrorCode.stale_member_epoch, ErrorCode.unknown_member_id)


def test_offsets_of_subscribed_topics_are_kept_and_others_deleted() -> None:
    shard = ConsumerShard(t=1, u=1)
    shard.join_consumer("a", "t")
    commit(shard, "a", 1, ("t", 0), ("u", 0))
    outcomes: list[ErrorCode] = []
    shard.call(lambda inner, _: inner.offsets.delete("g", [("t", 0), ("u", 0)], outcomes.extend))
    assert outcomes == [ErrorCode.group_subscribed_to_topic, ErrorCode.none]
    assert list(shard.offsets()) == [("t", 0)]


def test_offsets_expire_except_those_of_subscribed_topics_and_then_the_group() -> None:
    shard = ConsumerShard(limits=GroupLimits(offsets_retention_ms=100_000), t=1, u=1)
    client = ConsumerClient(shard, "a", "t")
    client.beat()
    commit(shard, "a", 1, ("t", 0), ("u", 0))
    for _ in range(4):
        shard.advance(25_000)
        client.beat()
    shard.call(lambda inner, now: inner.offsets.expire(now))
    assert list(shard.offsets()) == [("t", 0)]
    client.leave()
    shard.call(lambda inner, now: inner.offsets.expire(now))
    assert shard.shard.state.kind_of("g") is None
    shard.crash()
    assert shard.shard.state.kind_of("g") is None


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    shard = ConsumerShard(t=1)
    client = ConsumerClient(shard, "a", "t")
    client.beat()
    commit(shard, "a", 1)
    assert shard.delete() == [ErrorCode.non_empty_group]
    client.leave()
    assert shard.delete() == [ErrorCode.none]
    assert shard.delete() == [ErrorCode.group_id_not_found]
    shard.crash()
    assert (shard.offsets(), shard.shard.state.kind_of("g")) == ({}, None)


def test_groups_are_listed_by_their_kind_and_state() -> None:
    shard = ConsumerShard(t=2)
    settle(ConsumerClient(shard, "a", "t"))
    listed = shard.call(lambda inner, _: inner.groups.listing())
    assert [tuple(group) for group in listed] == [("g", "consumer", "consumer", "Stable")]
    assert shard.state() is GroupState.DEAD, "it is no classic group"
    with pytest.raises(ApiError) as refused:
        shard.call(lambda inner, _: inner.groups.describe("g"))
    assert refused.value.code is ErrorCode.group_id_not_found
    assert "not a classic group" in str(refused.value)


def test_retention_sees_the_positions_of_consumer_groups() -> None:
    shard = ConsumerShard(t=2, u=1)
    shard.join_consumer("a", "t")
    commit(shard, "a", 1, ("t", 1))
    positions = shard.call(lambda inner, _: [inner.consumed.positions(topic) for topic in ("t", "u")])
    assert positions == [{"g": {1: 7}}, {}]
