"""Sync, heartbeat and leave: fencing by member and by generation."""

from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LIMITS, LoggedShard

from catchment.coordination.groups.classic.commands import LeavingMember
from catchment.coordination.groups.classic.group import GroupState

DELAYED = LIMITS._replace(initial_rebalance_delay_ms=3000)


def test_unknown_members_and_other_generations_are_fenced() -> None:
    shard = LoggedShard()
    assert shard.heartbeat("m", 1) is ErrorCode.unknown_member_id
    assert shard.sync("m", 1)[0].error is ErrorCode.unknown_member_id
    (member,) = shard.stable_group()
    assert shard.heartbeat("m", 1) is ErrorCode.unknown_member_id
    assert shard.heartbeat(member.member_id, 2) is ErrorCode.illegal_generation
    assert shard.sync(member.member_id, 0)[0].error is ErrorCode.illegal_generation
    assert shard.heartbeat(member.member_id, 1, instance_id="none") is ErrorCode.unknown_member_id
    assert shard.heartbeat(member.member_id, 1) is ErrorCode.none


def test_a_sync_must_name_the_protocol_of_the_group_if_any() -> None:
    shard = LoggedShard()
    (member,) = shard.stable_group()
    wrong_type = shard.sync(member.member_id, 1, protocol_type="connect")
    wrong_name = shard.sync(member.member_id, 1, protocol_type="consumer", protocol_name="sticky")
    assert wrong_type[0].error is wrong_name[0].error is ErrorCode.inconsistent_group_protocol
    assert shard.sync(member.member_id, 1, protocol_type="consumer", protocol_name="range")[0].assignment == b"mine"


def test_a_sync_during_the_join_phase_fails_with_rebalance_in_progress() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2)
    shard.join(leader.member_id)
    assert shard.sync(follower.member_id, 1)[0].error is ErrorCode.rebalance_in_progress


def test_a_repeated_sync_replaces_the_first() -> None:
    shard = LoggedShard(DELAYED)
    joins = [shard.join(), shard.join()]
    shard.advance(6000)
    ((leader,), (follower,)) = joins
    first = shard.sync(follower.member_id, 1)
    second = shard.sync(follower.member_id, 1)
    assert first[0].error is ErrorCode.rebalance_in_progress
    shard.sync(leader.member_id, 1, {follower.member_id: b"f"})
    assert second[0].assignment == b"f"


def test_several_members_leave_at_once_with_an_error_code_for_each() -> None:
    shard = LoggedShard(DELAYED)
    one, two, three = shard.stable_group(3)
    outcomes = shard.leave(LeavingMember(one.member_id), LeavingMember("unknown"), LeavingMember(two.member_id))
    assert outcomes == [ErrorCode.none, ErrorCode.unknown_member_id, ErrorCode.none]
    (rejoined,) = shard.join(three.member_id)
    assert (rejoined.generation, rejoined.leader_id) == (2, three.member_id)


def test_a_pending_member_id_may_leave() -> None:
    shard = LoggedShard()
    (refused,) = shard.join(requires_known_member_id=True)
    assert shard.leave(LeavingMember(refused.member_id)) == [ErrorCode.none]
    assert shard.state() is GroupState.DEAD


def test_a_member_that_leaves_gets_responses_to_its_waiting_requests() -> None:
    shard = LoggedShard(DELAYED)
    joins = [shard.join(), shard.join()]
    shard.advance(6000)
    (_, (follower,)) = joins
    waiting = shard.sync(follower.member_id, 1)
    shard.leave(LeavingMember(follower.member_id))
    assert waiting[0].error is ErrorCode.unknown_member_id


def test_leaving_a_group_that_does_not_exist_fails() -> None:
    assert LoggedShard().leave(LeavingMember("m"), LeavingMember("n")) == [ErrorCode.unknown_member_id] * 2
