"""Static members of consumer groups keep their assignment when they rejoin."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from tests.coordination.groups.consumer.consumer_shards import ConsumerClient, ConsumerShard, settle


def pair(shard: ConsumerShard) -> tuple[ConsumerClient, ConsumerClient]:
    first = ConsumerClient(shard, "a", "t", instance_id="one")
    second = ConsumerClient(shard, "b", "t", instance_id="two")
    settle(first, second)
    return first, second


def test_a_static_member_that_rejoins_keeps_its_partitions_without_a_new_epoch() -> None:
    shard = ConsumerShard(t=2)
    first, second = pair(shard)
    kept, epoch = first.reads, second.epoch
    assert first.leave(-2).epoch == -2
    second.beat()
    again = ConsumerClient(shard, "c", "t", instance_id="one")
    assert again.beat() is ErrorCode.none
    assert again.reads == kept
    second.beat()
    assert (second.epoch, again.epoch) == (epoch, epoch)
    assert list(shard.group().members) == ["b", "c"]


def test_an_instance_id_in_use_is_not_replaced() -> None:
    shard = ConsumerShard(t=2)
    pair(shard)
    assert shard.join_consumer("c", "t", instance_id="one").error is ErrorCode.unreleased_instance_id


def test_a_static_member_that_missed_the_response_may_rejoin() -> None:
    shard = ConsumerShard(t=2)
    first, _ = pair(shard)
    assert shard.join_consumer("a", "t", instance_id="one").error is ErrorCode.none
    assert first.beat() is ErrorCode.none


def test_the_old_member_id_of_a_static_member_is_fenced() -> None:
    shard = ConsumerShard(t=2)
    first, _ = pair(shard)
    epoch = first.epoch
    first.leave(-2)
    shard.join_consumer("c", "t", instance_id="one")
    assert shard.beat("a", epoch, instance_id="one").error is ErrorCode.fenced_instance_id
    assert shard.beat("a", -1, instance_id="one").error is ErrorCode.fenced_instance_id
    assert shard.beat("a", epoch, instance_id="unknown").error is ErrorCode.unknown_member_id


def test_a_static_member_that_left_temporarily_must_rejoin() -> None:
    shard = ConsumerShard(t=2)
    first, _ = pair(shard)
    epoch = first.epoch
    first.leave(-2)
    assert shard.beat("a", epoch, instance_id="one").error is ErrorCode.fenced_member_epoch


def test_a_static_member_that_left_temporarily_is_removed_after_its_session_timeout() -> None:
    shard = ConsumerShard(t=2)
    first, second = pair(shard)
    first.leave(-2)
    shard.advance(44_000)
    second.beat()
    assert second.reads == {"t": [1]}
    shard.crash()
    shard.advance(44_000)
    second.beat()
    shard.advance(1_000)
    second.beat()
    assert second.reads == {"t": [0, 1]}


def test_a_static_member_that_leaves_permanently_releases_its_partitions() -> None:
    shard = ConsumerShard(t=2)
    first, second = pair(shard)
    first.leave(-1)
    second.beat()
    assert second.reads == {"t": [0, 1]}
