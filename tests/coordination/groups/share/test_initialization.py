"""A partition is assigned after its share state is initialized, and a group is deleted after its state."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from tests.coordination.groups.share.share_shards import RETRY_MS, ShareShard

from catchment.coordination.groups.modern import LEAVING, PartitionsByTopic
from catchment.protocol.errors import ApiError


def begin_deleting(shard: ShareShard) -> PartitionsByTopic | ApiError:
    answers: list[PartitionsByTopic | ApiError] = []
    shard.call(lambda inner, _: inner.share_groups.initialization.begin_deleting("g", answers.append))
    return answers[0]


def delete_group(shard: ShareShard) -> ErrorCode:
    outcomes: list[ErrorCode] = []
    shard.call(lambda inner, _: inner.share_groups.initialization.delete_group("g", outcomes.append))
    return outcomes[0]


def test_a_partition_is_assigned_once_its_state_is_initialized() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t", 2)
    joined = shard.beat("a", 0, ("t",))
    assert joined.assignment == {}
    assert joined.to_initialize == {topic_id: frozenset({0, 1})}
    assert joined.state_epoch == 1
    assert shard.beat("a", joined.member_epoch).assignment is None
    assert shard.finish({topic_id: frozenset({1})}) is ErrorCode.none
    some = shard.beat("a", joined.member_epoch)
    assert some.assignment == {topic_id: frozenset({1})}
    shard.finish({topic_id: frozenset({0})})
    assert shard.beat("a", some.member_epoch).assignment == {topic_id: frozenset({0, 1})}


def test_initialization_is_requested_once_and_again_after_the_retry_interval() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t")
    epoch = shard.beat("a", 0, ("t",)).member_epoch
    assert not shard.beat("a", epoch).to_initialize
    shard.advance(RETRY_MS)
    assert shard.beat("a", epoch).to_initialize == {topic_id: frozenset({0})}
    assert not shard.beat("a", epoch).to_initialize


def test_a_failed_initialization_is_requested_again_by_the_next_heartbeat() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t")
    joined = shard.beat("a", 0, ("t",))
    shard.finish(joined.to_initialize, has_failed=True)
    assert not shard.group().partitions.initializing
    assert shard.beat("a", joined.member_epoch).to_initialize == {topic_id: frozenset({0})}


def test_an_initialization_that_a_crash_interrupted_is_requested_again() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t")
    epoch = shard.beat("a", 0, ("t",)).member_epoch
    shard.crash()
    assert shard.beat("a", epoch).to_initialize == {topic_id: frozenset({0})}


def test_new_partitions_of_a_topic_are_initialized_and_assigned() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t")
    epoch = shard.join_share("a", "t").member_epoch
    shard.make_topic("t", 3)
    grown = shard.beat("a", epoch)
    assert grown.to_initialize == {topic_id: frozenset({1, 2})}
    shard.finish(grown.to_initialize)
    assert shard.beat("a", grown.member_epoch).assignment == {topic_id: frozenset({0, 1, 2})}


def test_a_topic_created_after_its_subscribers_is_initialized_and_assigned() -> None:
    shard = ShareShard()
    epoch = shard.join_share("a", "t").member_epoch
    topic_id = shard.make_topic("t")
    grown = shard.beat("a", epoch)
    shard.finish(grown.to_initialize)
    assert shard.beat("a", grown.member_epoch).assignment == {topic_id: frozenset({0})}


def test_a_topic_that_a_member_adds_is_initialized_in_an_unchanged_group() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    other_id = shard.make_topic("u")
    epoch = shard.join_share("a", "t").member_epoch
    for _ in range(3):
        shard.beat("a", epoch)
    assert shard.beat("a", epoch, ("t", "u")).to_initialize == {other_id: frozenset({0})}


def test_a_deleted_topic_is_unassigned_and_a_recreated_one_is_initialized_again() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    epoch = shard.join_share("a", "t").member_epoch
    shard.delete_topic("t")
    gone = shard.beat("a", epoch)
    assert gone.assignment == {}
    assert not shard.group().partitions.initialized
    successor = shard.make_topic("t")
    assert shard.beat("a", gone.member_epoch).to_initialize == {successor: frozenset({0})}


def test_a_group_with_members_is_not_deleted() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    shard.join_share("a", "t")
    refused = begin_deleting(shard)
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.non_empty_group
    assert delete_group(shard) is ErrorCode.non_empty_group


def test_an_empty_group_is_deleted_with_all_its_records() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t", 2)
    shard.join_share("a", "t")
    shard.beat("a", LEAVING)
    assert begin_deleting(shard) == {topic_id: frozenset({0, 1})}
    assert delete_group(shard) is ErrorCode.none
    assert shard.shard.state.kind_of("g") is None
    last = dict(shard.log)
    assert set(last.values()) == {None}
    shard.crash()
    assert shard.shard.state.kind_of("g") is None


def test_an_interrupted_deletion_can_be_repeated_or_cancelled() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t")
    shard.join_share("a", "t")
    shard.beat("a", LEAVING)
    begin_deleting(shard)
    assert begin_deleting(shard) == {topic_id: frozenset({0})}
    shard.crash()
    joined = shard.beat("b", 0, ("t",))
    assert joined.to_initialize == {topic_id: frozenset({0})}


def test_a_deletion_that_outlived_its_shard_does_not_delete_a_group_that_has_new_state() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    shard.join_share("a", "t")
    shard.beat("a", LEAVING)
    begin_deleting(shard)
    shard.crash()
    shard.join_share("b", "t")
    shard.beat("b", LEAVING)
    assert delete_group(shard) is ErrorCode.non_empty_group
    assert shard.group().partitions.initialized
