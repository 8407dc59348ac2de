"""Committed offsets: which clients may commit, and when offsets expire."""

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LIMITS, LoggedShard
from tests.coordination.logged_shard import START_MS

from catchment.coordination.coordinator_shard import MAX_NAME_BYTES
from catchment.coordination.groups.classic.commands import LeavingMember
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.records import CommittedOffset
from catchment.protocol.errors import ApiError

DELAYED = LIMITS._replace(initial_rebalance_delay_ms=3000)
WEEK_MS = LIMITS.offsets_retention_ms


def expire(shard: LoggedShard) -> None:
    shard.call(lambda inner, now: inner.offsets.expire(now))


def delete_offsets(shard: LoggedShard, *partitions: tuple[str, int]) -> list[ErrorCode]:
    outcomes: list[list[ErrorCode]] = []
    shard.call(lambda inner, _: inner.offsets.delete("g", partitions, outcomes.append))
    return outcomes[0]


def test_a_commit_is_answered_once_it_is_committed_and_survives_a_crash() -> None:
    shard = LoggedShard()
    shard.holds_commits = True
    assert shard.commit(42, metadata="note") == []
    shard.commit_all()
    shard.crash()
    assert shard.offsets() == {("t", 0): CommittedOffset(42, 3, "note", START_MS)}


def test_any_client_may_commit_for_a_group_without_members() -> None:
    shard = LoggedShard()
    assert shard.commit(1) == [ErrorCode.none]
    assert shard.commit(2) == [ErrorCode.none]
    assert shard.state() is GroupState.EMPTY
    assert shard.commit(3, generation=1, member_id="m") == [ErrorCode.unknown_member_id]


def test_a_generation_of_a_group_that_does_not_exist_is_rejected() -> None:
    assert LoggedShard().commit(1, generation=1, member_id="m") == [ErrorCode.illegal_generation]


def test_only_members_of_the_current_generation_may_commit() -> None:
    shard = LoggedShard()
    (member,) = shard.stable_group()
    assert shard.commit(1, generation=1, member_id=member.member_id) == [ErrorCode.none]
    assert shard.commit(2) == [ErrorCode.unknown_member_id]
    assert shard.commit(2, generation=1, member_id="unknown") == [ErrorCode.unknown_member_id]
    assert shard.commit(2, generation=0, member_id=member.member_id) == [ErrorCode.illegal_generation]
    assert shard.offsets()["t", 0].offset == 1


def test_a_member_may_commit_until_it_rejoins_and_not_before_it_has_its_assignment() -> None:
    shard = LoggedShard(DELAYED)
    leader, follower = shard.stable_group(2)
    shard.join(leader.member_id)
    assert shard.commit(1, generation=1, member_id=follower.member_id) == [ErrorCode.none]
    shard.join(follower.member_id)
    assert shard.commit(2, generation=2, member_id=follower.member_id) == [ErrorCode.rebalance_in_progress]


@pytest.mark.parametrize(("size", "code"), [(4096, ErrorCode.none), (4097, ErrorCode.offset_metadata_too_large)])
def test_the_size_of_metadata_is_limited(size: int, code: ErrorCode) -> None:
    assert LoggedShard().commit(1, metadata="x" * size) == [code]


def test_no_setting_lets_metadata_grow_beyond_what_a_record_holds() -> None:
    shard = LoggedShard(LIMITS._replace(offset_metadata_max_bytes=1 << 20))
    assert shard.commit(1, metadata="x" * MAX_NAME_BYTES) == [ErrorCode.none]
    assert shard.commit(1, metadata="x" * (MAX_NAME_BYTES + 1)) == [ErrorCode.offset_metadata_too_large]
    assert shard.commit(1, group_id="g" * (MAX_NAME_BYTES + 1)) == [ErrorCode.invalid_group_id]


def test_offsets_of_an_empty_group_expire_some_time_after_its_last_member_left() -> None:
    shard = LoggedShard()
    (member,) = shard.stable_group()
    shard.commit(1, generation=1, member_id=member.member_id)
    shard.advance(5000)
    shard.leave(LeavingMember(member.member_id))
    shard.advance(WEEK_MS - 1)
    expire(shard)
    assert shard.offsets()["t", 0].offset == 1
    shard.advance(1)
    expire(shard)
    assert shard.offsets() == {}
    assert shard.state() is GroupState.DEAD
    shard.crash()
    assert (shard.offsets(), shard.state()) == ({}, GroupState.DEAD)


def test_offsets_of_subscribed_topics_never_expire_others_do() -> None:
    shard = LoggedShard()
    (member,) = shard.stable_group(session_timeout_ms=1_800_000)
    shard.commit(1, generation=1, member_id=member.member_id, topic="t")
    shard.commit(2, generation=1, member_id=member.member_id, topic="dropped")
    while shard.now.wall_ms < START_MS + WEEK_MS:
        shard.advance(1_500_000)
        assert shard.heartbeat(member.member_id, 1) is ErrorCode.none
    expire(shard)
    assert list(shard.offsets()) == [("t", 0)]


def test_offsets_of_a_group_that_never_had_members_expire_each_by_its_own_time() -> None:
    shard = LoggedShard()
    shard.commit(1, partition=0)
    shard.advance(1000)
    shard.commit(1, partition=1)
    shard.advance(WEEK_MS - 1000)
    expire(shard)
    assert list(shard.offsets()) == [("t", 1)]


def test_offsets_are_deleted_unless_a_member_subscribes_to_the_topic() -> None:
    shard = LoggedShard()
    (member,) = shard.stable_group()
    shard.commit(1, generation=1, member_id=member.member_id, topic="t")
    shard.commit(2, generation=1, member_id=member.member_id, topic="dropped")
    outcomes = delete_offsets(shard, ("t", 0), ("dropped", 0), ("never", 7))
    assert outcomes == [ErrorCode.group_subscribed_to_topic, ErrorCode.none, ErrorCode.none]
    assert list(shard.offsets()) == [("t", 0)]


def test_offsets_of_other_kinds_of_groups_are_deleted_only_when_those_are_empty() -> None:
    shard = LoggedShard()
    with pytest.raises(ApiError) as missing:
        delete_offsets(shard, ("t", 0))
    assert missing.value.code is ErrorCode.group_id_not_found
    (worker,) = shard.stable_group(protocol_type="connect")
    with pytest.raises(ApiError) as busy:
        delete_offsets(shard, ("t", 0))
    assert busy.value.code is ErrorCode.non_empty_group
    shard.leave(LeavingMember(worker.member_id))
    assert delete_offsets(shard, ("t", 0)) == [ErrorCode.none]


def test_deleting_a_topic_deletes_its_offsets() -> None:
    shard = LoggedShard()
    shard.commit(1, topic="t")
    shard.commit(1, topic="u")
    shard.commit(1, group_id="h", topic="t")
    shard.call(lambda inner, _: inner.offsets.delete_topic("t"))
    assert list(shard.offsets()) == [("u", 0)]
    assert shard.offsets("h") == {}


def test_groups_without_members_are_deleted_with_their_offsets() -> None:
    shard = LoggedShard()
    assert shard.delete() == [ErrorCode.group_id_not_found]
    assert shard.delete("") == [ErrorCode.invalid_group_id]
    (member,) = shard.stable_group()
    shard.commit(1, generation=1, member_id=member.member_id)
    assert shard.delete() == [ErrorCode.non_empty_group]
    shard.leave(LeavingMember(member.member_id))
    assert shard.delete() == [ErrorCode.none]
    assert shard.delete() == [ErrorCode.group_id_not_found]
    shard.crash()
    assert (shard.state(), shard.offsets()) == (GroupState.DEAD, {})


def test_groups_are_listed_and_described() -> None:
    shard = LoggedShard()
    (member,) = shard.stable_group()
    shard.commit(1, group_id="by-hand")
    listed = shard.call(lambda inner, _: inner.groups.listing())
    assert {(group.group_id, group.protocol_type, group.state_name) for group in listed} == {
        ("g", "consumer", "Stable"),
        ("by-hand", "", "Empty"),
    }
    described = shard.call(lambda inner, _: inner.groups.describe("g"))
    assert (described.state, described.protocol_name) == (GroupState.STABLE, "range")
    assert [(one.member_id, one.client_id, one.assignment) for one in described.members] == [
        (member.member_id, "client", b"mine")
    ]
