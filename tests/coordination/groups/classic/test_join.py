"""JoinGroup: member ids, which members may join, and what the response holds."""

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LIMITS, RANGE, LoggedShard

from catchment.coordination.coordinator_shard import MAX_NAME_BYTES
from catchment.coordination.groups.classic.group import GroupState

DELAYED = LIMITS._replace(initial_rebalance_delay_ms=3000)


def test_a_new_member_first_gets_an_id_and_joins_with_it() -> None:
    shard = LoggedShard()
    (refused,) = shard.join(requires_known_member_id=True)
    assert refused.error is ErrorCode.member_id_required
    assert refused.member_id.startswith("client-")
    (answer,) = shard.join(refused.member_id, requires_known_member_id=True)
    assert (answer.error, answer.member_id, answer.generation) == (ErrorCode.none, refused.member_id, 1)
    assert (answer.leader_id, answer.protocol_type, answer.protocol_name) == (refused.member_id, "consumer", "range")
    assert answer.members == ((refused.member_id, None, RANGE[0][1]),)


def test_a_member_id_that_is_never_used_expires() -> None:
    shard = LoggedShard()
    (refused,) = shard.join(requires_known_member_id=True)
    shard.advance(10_000)
    assert shard.state() is GroupState.DEAD
    assert shard.join(refused.member_id)[0].error is ErrorCode.unknown_member_id
    assert shard.log == []


def test_a_rebalance_waits_for_pending_member_ids() -> None:
    shard = LoggedShard()
    (leader,) = shard.stable_group()
    (refused,) = shard.join(requires_known_member_id=True)
    rejoined = shard.join(leader.member_id)
    assert rejoined == []
    shard.join(refused.member_id)
    assert rejoined[0].generation == 2
    assert len(rejoined[0].members) == 2


def test_an_empty_group_waits_for_more_members_up_to_a_limit() -> None:
    shard = LoggedShard(DELAYED)
    first = shard.join(rebalance_timeout_ms=7000)
    shard.advance(2999)
    second = shard.join(rebalance_timeout_ms=7000)
    shard.advance(1)
    assert (first, second) == ([], [])
    third = shard.join(rebalance_timeout_ms=7000)
    shard.advance(3000)
    assert first == []
    fourth = shard.join(rebalance_timeout_ms=7000)
    shard.advance(1000)
    assert [len(answers) for answers in (first, second, third, fourth)] == [1, 1, 1, 1]
    assert len(first[0].members) == 4
    assert second[0].members == ()


@pytest.mark.parametrize("timeout_ms", [5999, 1_800_001])
def test_a_session_timeout_must_be_within_the_limits(timeout_ms: int) -> None:
    shard = LoggedShard()
    assert shard.join(session_timeout_ms=timeout_ms)[0].error is ErrorCode.invalid_session_timeout
    assert shard.state() is GroupState.DEAD


def test_names_that_no_record_can_hold_are_rejected() -> None:
    shard = LoggedShard()
    too_long = "x" * (MAX_NAME_BYTES + 1)
    assert shard.join(group_id=too_long)[0].error is ErrorCode.invalid_group_id
    assert shard.join(group_id="")[0].error is ErrorCode.invalid_group_id
    assert shard.join(instance_id=too_long)[0].error is ErrorCode.invalid_request
    assert shard.join(protocols=((too_long, b""),))[0].error is ErrorCode.invalid_request
    assert shard.join(group_id=too_long[1:])[0].error is ErrorCode.none


def test_members_must_have_a_protocol_in_common() -> None:
    shard = LoggedShard()
    assert shard.join(protocols=())[0].error is ErrorCode.inconsistent_group_protocol
    assert shard.join(protocol_type="")[0].error is ErrorCode.inconsistent_group_protocol
    shard.stable_group()
    assert shard.join(protocols=(("other", b""),))[0].error is ErrorCode.inconsistent_group_protocol
    assert shard.join(protocol_type="connect")[0].error is ErrorCode.inconsistent_group_protocol


def test_the_protocol_is_the_most_preferred_of_those_that_all_support() -> None:
    shard = LoggedShard(DELAYED)
    joins = [
        shard.join(protocols=(("a", b"1"), ("b", b"2"), ("c", b"3"))),
        shard.join(protocols=(("b", b"4"), ("a", b"5"))),
        shard.join(protocols=(("b", b"6"), ("a", b"7"))),
    ]
    shard.advance(6000)
    assert [answers[0].protocol_name for answers in joins] == ["b"] * 3
    assert [metadata for _, _, metadata in joins[0][0].members] == [b"2", b"4", b"6"]


def test_a_group_has_a_maximum_size() -> None:
    shard = LoggedShard(DELAYED._replace(max_size=2))
    shard.stable_group(2)
    (full,) = shard.join()
    assert (full.error, full.member_id) == (ErrorCode.group_max_size_reached, "")
    assert shard.state() is GroupState.STABLE


def test_pending_member_ids_are_bounded_too() -> None:
    shard = LoggedShard(LIMITS._replace(max_size=2))
    errors = [shard.join(requires_known_member_id=True)[0].error for _ in range(3)]
    assert errors == [ErrorCode.member_id_required] * 2 + [ErrorCode.group_max_size_reached]


def test_a_follower_that_rejoins_unchanged_causes_no_rebalance() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2)
    (answer,) = shard.join(follower.member_id)
    assert (answer.error, answer.generation, answer.leader_id) == (ErrorCode.none, 1, leader.member_id)
    assert shard.state() is GroupState.STABLE


def test_a_leader_that_joins_again_or_a_change_of_metadata_begins_a_rebalance() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2)
    assert shard.join(leader.member_id) == []
    assert shard.heartbeat(follower.member_id, 1) is ErrorCode.rebalance_in_progress
    assert shard.join(follower.member_id)[0].generation == 2
    assert shard.state() is GroupState.COMPLETING
    assert shard.join(follower.member_id, protocols=(("range", b"changed"),)) == []
    assert shard.state() is GroupState.PREPARING


def test_a_repeated_join_replaces_the_first() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2)
    first = shard.join(leader.member_id)
    second = shard.join(leader.member_id)
    assert first[0].error is ErrorCode.rebalance_in_progress
    shard.join(follower.member_id)
    assert second[0].generation == 2


def test_a_repeated_join_returns_the_current_generation() -> None:
    shard = LoggedShard()
    (answer,) = shard.join()
    assert shard.join(answer.member_id) == [answer]


def test_an_unknown_member_id_is_rejected() -> None:
    shard = LoggedShard()
    assert shard.join("unknown")[0].error is ErrorCode.unknown_member_id
    shard.stable_group()
    assert shard.join("unknown")[0].error is ErrorCode.unknown_member_id
