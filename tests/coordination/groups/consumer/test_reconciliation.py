"""Partitions move from member to member, and never belong to two members at once."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from tests.coordination.groups.consumer.consumer_shards import ConsumerClient, ConsumerShard, settle

from catchment.coordination.groups.consumer.group import ConsumerGroupState, MemberState


def test_the_first_member_gets_everything_at_once() -> None:
    shard = ConsumerShard(t=3)
    answer = shard.join_consumer("a", "t")
    assert (answer.error, answer.member_id, answer.epoch) == (ErrorCode.none, "a", 1)
    assert answer.heartbeat_interval_ms == 5_000
    assert shard.names(answer.assignment or {}) == {"t": [0, 1, 2]}
    assert shard.group().state is ConsumerGroupState.STABLE


def test_a_heartbeat_without_changes_has_no_assignment_and_writes_nothing() -> None:
    shard = ConsumerShard(t=3)
    shard.join_consumer("a", "t")
    written = len(shard.log)
    answer = shard.beat("a", 1)
    assert (answer.error, answer.epoch, answer.assignment) == (ErrorCode.none, 1, None)
    assert len(shard.log) == written


def test_a_full_heartbeat_returns_the_assignment_again() -> None:
    shard = ConsumerShard(t=1)
    first = shard.join_consumer("a", "t")
    again = shard.beat("a", 1, rebalance_timeout_ms=60_000, topics=("t",), owned=first.assignment)
    assert again.assignment == first.assignment


def test_a_partition_moves_only_after_its_owner_has_revoked_it() -> None:
    shard = ConsumerShard(t=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    first.beat()
    second.beat()
    assert second.reads == {}
    assert shard.group().current("b").state is MemberState.UNRELEASED_PARTITIONS
    first.beat()
    assert first.reads == {"t": [0]}
    assert first.epoch == 1
    assert shard.group().current("a").state is MemberState.UNREVOKED_PARTITIONS
    second.beat()
    assert second.reads == {}, "the first member has not said yet that it has given it up"
    assert shard.group().state is ConsumerGroupState.RECONCILING
    first.beat()
    second.beat()
    assert (first.reads, second.reads) == ({"t": [0]}, {"t": [1]})
    assert (first.epoch, second.epoch) == (2, 2)
    assert shard.group().state is ConsumerGroupState.STABLE


def test_a_member_that_does_not_report_what_it_owns_has_revoked_nothing() -> None:
    shard = ConsumerShard(t=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    first.beat()
    second.beat()
    first.beat()
    shard.beat("a", first.epoch)
    assert shard.group().current("a").state is MemberState.UNREVOKED_PARTITIONS
    second.beat()
    assert second.reads == {}


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    shard = ConsumerShard(t=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    first.beat()
    second.beat()
    first.beat()
    for _ in range(3):
        shard.advance(20_000)
        shard.beat("a", first.epoch)
        second.beat()
    assert list(shard.group().members) == ["b"]
    second.beat()
    assert second.reads == {"t": [0, 1]}
    assert first.beat() is ErrorCode.unknown_member_id


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout() -> None:
    shard = ConsumerShard(t=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    settle(first, second)
    shard.advance(30_000)
    second.beat()
    shard.advance(15_000)
    assert list(shard.group().members) == ["b"]
    second.beat()
    assert second.reads == {"t": [0, 1]}


def test_a_member_that_leaves_releases_its_partitions_at_once() -> None:
    shard = ConsumerShard(t=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    settle(first, second)
    answer = first.leave()
    assert (answer.error, answer.member_id, answer.epoch) == (ErrorCode.none, "a", -1)
    second.beat()
    assert second.reads == {"t": [0, 1]}
    second.leave()
    assert shard.group().state is ConsumerGroupState.EMPTY


def test_a_changed_subscription_takes_effect_with_the_same_heartbeat() -> None:
    shard = ConsumerShard(t=1, u=1)
    shard.join_consumer("a", "t")
    topic_id = shard.image.topics["t"].id
    answer = shard.beat("a", 1, topics=("u",), owned={topic_id: frozenset((0,))})
    assert (shard.names(answer.assignment or {}), answer.epoch) == ({}, 1)
    answer = shard.beat("a", 1, owned={})
    assert (shard.names(answer.assignment or {}), answer.epoch) == ({"u": [0]}, 2)


def test_new_partitions_and_topics_are_assigned_by_the_next_heartbeat() -> None:
    shard = ConsumerShard(t=1)
    client = ConsumerClient(shard, "a", "t", "later")
    client.beat()
    shard.set_topic("t", 2)
    client.beat()
    assert (client.reads, client.epoch) == ({"t": [0, 1]}, 2)
    shard.set_topic("later", 1)
    client.beat()
    assert client.reads == {"t": [0, 1], "later": [0]}
    shard.set_topic("unrelated", 1)
    client.beat()
    assert client.epoch == 3, "a topic without subscribers begins no epoch"


def test_a_deleted_topic_is_revoked() -> None:
    shard = ConsumerShard(t=1, u=1)
    client = ConsumerClient(shard, "a", "t", "u")
    client.beat()
    gone = shard.image.topics["u"].id
    shard.delete_topic("u")
    client.beat()
    assert gone not in client.owned
    client.beat()
    assert (client.reads, client.epoch) == ({"t": [0]}, 2)


def test_a_recreated_topic_is_another_topic() -> None:
    shard = ConsumerShard(t=1)
    client = ConsumerClient(shard, "a", "t")
    client.beat()
    shard.delete_topic("t")
    shard.set_topic("t", 2)
    settle(client, rounds=3)
    assert client.reads == {"t": [0, 1]}


def test_members_may_subscribe_to_different_topics() -> None:
    shard = ConsumerShard(t=2, u=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t", "u")
    settle(first, second)
    assert (first.reads, second.reads) == ({"t": [0, 1]}, {"u": [0, 1]})
