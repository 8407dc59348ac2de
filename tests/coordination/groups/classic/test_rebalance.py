"""Rebalances: which members the coordinator waits for, how long, and what is logged."""

from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LIMITS, LoggedShard

from catchment.coordination.groups.classic.commands import LeavingMember
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.classic.rebalance import NEW_MEMBER_TIMEOUT_MS

DELAYED = LIMITS._replace(initial_rebalance_delay_ms=3000)


def test_assignments_are_logged_before_any_member_gets_one() -> None:
    shard = LoggedShard(DELAYED)
    joins = [shard.join(), shard.join()]
    shard.advance(6000)
    ((leader,), (follower,)) = joins
    shard.holds_commits = True
    waiting = shard.sync(follower.member_id, 1)
    leading = shard.sync(leader.member_id, 1, {leader.member_id: b"l", follower.member_id: b"f"})
    assert (waiting, leading, shard.state()) == ([], [], GroupState.COMPLETING)
    assert shard.shard.state.logged["g"].generation == 1
    shard.commit_all()
    assert (leading[0].assignment, waiting[0].assignment) == (b"l", b"f")
    assert (leading[0].protocol_type, leading[0].protocol_name) == ("consumer", "range")
    assert shard.state() is GroupState.STABLE


def test_assignments_that_cannot_be_written_lead_to_another_rebalance() -> None:
    shard = LoggedShard()
    (leader,) = shard.join()
    shard.holds_commits = True
    answers = shard.sync(leader.member_id, 1, {leader.member_id: b"l"})
    shard.fail_all(ErrorCode.coordinator_not_available)
    assert answers[0].error is ErrorCode.coordinator_not_available
    assert shard.state() is GroupState.PREPARING


def test_an_outcome_of_a_past_generation_changes_nothing() -> None:
    shard = LoggedShard()
    (leader,) = shard.join()
    shard.holds_commits = True
    answers = shard.sync(leader.member_id, 1, {leader.member_id: b"l"})
    rejoined = shard.join(leader.member_id, protocols=(("range", b"changed"),))
    assert answers[0].error is ErrorCode.rebalance_in_progress
    shard.commit_all()
    assert rejoined[0].generation == 2
    assert shard.state() is GroupState.COMPLETING


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2, rebalance_timeout_ms=8000)
    rejoined = shard.join(leader.member_id, rebalance_timeout_ms=8000)
    shard.advance(4000)
    assert shard.heartbeat(follower.member_id, 1) is ErrorCode.rebalance_in_progress
    shard.advance(3999)
    assert rejoined == []
    shard.advance(1)
    assert len(rejoined[0].members) == 1
    assert shard.heartbeat(follower.member_id, 2) is ErrorCode.unknown_member_id


def test_when_no_member_rejoins_an_empty_group_is_logged() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2)
    assert shard.leave(LeavingMember(leader.member_id)) == [ErrorCode.none]
    assert shard.heartbeat(follower.member_id, 1) is ErrorCode.rebalance_in_progress
    shard.advance(10_000)
    assert shard.state() is GroupState.EMPTY
    record = shard.shard.state.logged["g"]
    assert (record.generation, record.members, record.protocol_name, record.leader_id) == (2, (), None, None)


def test_a_member_that_never_syncs_is_removed_after_the_rebalance_timeout_and_the_others_rejoin() -> None:
    shard = LoggedShard(DELAYED)
    joins = [shard.join(rebalance_timeout_ms=8000), shard.join(rebalance_timeout_ms=8000)]
    shard.advance(6000)
    ((leader,), (follower,)) = joins
    waiting = shard.sync(follower.member_id, 1)
    shard.advance(5000)
    assert shard.heartbeat(leader.member_id, 1) is ErrorCode.none
    shard.advance(3000)
    assert waiting[0].error is ErrorCode.rebalance_in_progress
    (rejoined,) = shard.join(follower.member_id)
    assert (rejoined.generation, rejoined.leader_id, len(rejoined.members)) == (2, follower.member_id, 1)


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2)
    for _ in range(3):
        shard.advance(4000)
        assert shard.heartbeat(leader.member_id, 1) in (ErrorCode.none, ErrorCode.rebalance_in_progress)
    assert shard.state() is GroupState.PREPARING
    assert shard.heartbeat(follower.member_id, 1) is ErrorCode.unknown_member_id
    assert len(shard.join(leader.member_id)[0].members) == 1


def test_a_commit_extends_the_session_like_a_heartbeat() -> None:
    shard = LoggedShard()
    (member,) = shard.stable_group()
    for _ in range(3):
        shard.advance(9000)
        assert shard.commit(1, generation=1, member_id=member.member_id) == [ErrorCode.none]


def test_a_first_join_waits_up_to_a_limit() -> None:
    shard = LoggedShard(DELAYED)
    (leader,) = shard.stable_group(1, rebalance_timeout_ms=2**31 - 1)
    joining = shard.join(rebalance_timeout_ms=2**31 - 1)
    waited_ms = 0
    while not joining and waited_ms <= NEW_MEMBER_TIMEOUT_MS:
        assert shard.heartbeat(leader.member_id, 1) is ErrorCode.rebalance_in_progress
        shard.advance(5000)
        waited_ms += 5000
    assert waited_ms == NEW_MEMBER_TIMEOUT_MS
    assert joining[0].error is ErrorCode.unknown_member_id


def test_a_stable_group_survives_a_crash_with_new_sessions() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2)
    shard.advance(9000)
    shard.crash()
    shard.advance(9000)
    assert shard.state() is GroupState.STABLE
    assert shard.heartbeat(leader.member_id, 1) is ErrorCode.none
    assert shard.sync(follower.member_id, 1)[0].assignment == b"mine"
    shard.advance(1000)
    assert shard.state() is GroupState.STABLE


def test_waiting_joins_get_a_response_when_the_shard_is_closed() -> None:
    shard = LoggedShard(DELAYED)
    joining = shard.join()
    shard.crash()
    assert joining[0].error is ErrorCode.not_coordinator


def test_a_group_that_is_too_large_after_a_change_of_settings_rebalances() -> None:
    shard = LoggedShard(DELAYED)
    shard.stable_group(2)
    shard.limits = DELAYED._replace(max_size=1)
    shard.crash()
    assert shard.state() is GroupState.PREPARING
