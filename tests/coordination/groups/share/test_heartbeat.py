"""Members of share groups join, change their subscription and leave."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.groups.share.share_shards import SESSION_MS, ShareShard

from catchment.coordination.groups.modern import LEAVING


def test_the_first_member_gets_all_partitions_and_each_change_is_an_epoch() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t", 3)
    joined = shard.join_share("a", "t")
    assert joined.assignment == {topic_id: frozenset({0, 1, 2})}
    assert joined.member_epoch == shard.group().epoch == shard.group().assignment_epoch == 2


def test_partitions_are_shared_among_members_and_all_have_some() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t", 1)
    epoch = shard.join_share("a", "t").member_epoch
    assert shard.join_share("b", "t").assignment == {topic_id: frozenset({0})}
    beat = shard.beat("a", epoch)
    assert (beat.member_epoch, beat.assignment) == (epoch + 1, {topic_id: frozenset({0})})


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_repeats_nothing() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    epoch = shard.join_share("a", "t").member_epoch
    shard.beat("a", epoch)
    length = len(shard.log)
    beat = shard.beat("a", epoch)
    assert (beat.error, beat.member_epoch, beat.assignment) == (ErrorCode.none, epoch, None)
    assert beat.heartbeat_interval_ms == 5000
    assert len(shard.log) == length


def test_a_member_that_may_have_missed_a_response_gets_its_assignment() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t", 2)
    epoch = shard.join_share("a", "t").member_epoch
    shard.join_share("b", "t")
    moved = shard.beat("a", epoch)
    assert shard.beat("a", epoch) == moved
    assert shard.beat("a", moved.member_epoch, ("t",)).assignment == moved.assignment == {topic_id: frozenset({0})}
    assert shard.beat("a", 0, ("t",)).assignment == moved.assignment


def test_an_epoch_that_the_member_never_had_is_fenced() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    epoch = shard.join_share("a", "t").member_epoch
    shard.join_share("b", "t")
    shard.beat("a", epoch)
    for wrong in (epoch - 1, epoch + 5):
        assert shard.beat("a", wrong).error is ErrorCode.fenced_member_epoch


def test_a_new_subscription_changes_the_assignment_of_the_member() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    other_id = shard.make_topic("u", 2)
    epoch = shard.join_share("a", "t").member_epoch
    changed = shard.beat("a", epoch, ("u",))
    assert changed.assignment == {}
    shard.finish(changed.to_initialize)
    assert shard.beat("a", changed.member_epoch).assignment == {other_id: frozenset({0, 1})}


def test_the_partitions_of_a_member_that_leaves_go_to_the_others() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t", 2)
    epoch = shard.join_share("a", "t").member_epoch
    shard.join_share("b", "t")
    epoch = shard.beat("a", epoch).member_epoch
    left = shard.beat("b", LEAVING)
    assert (left.error, left.member_epoch) == (ErrorCode.none, LEAVING)
    assert shard.beat("a", epoch).assignment == {topic_id: frozenset({0, 1})}
    assert shard.beat("b", 1).error is ErrorCode.unknown_member_id
    assert shard.beat("b", LEAVING).error is ErrorCode.unknown_member_id


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t", 2)
    epoch = shard.join_share("a", "t").member_epoch
    shard.join_share("b", "t")
    shard.advance(SESSION_MS - 1)
    epoch = shard.beat("a", epoch).member_epoch
    shard.advance(1)
    assert list(shard.group().members) == ["a"]
    assert shard.beat("a", epoch).assignment == {topic_id: frozenset({0, 1})}


def test_a_group_without_members_is_empty_and_can_be_joined_again() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t")
    shard.join_share("a", "t")
    shard.beat("a", LEAVING)
    assert shard.group().state_name == "Empty"
    joined = shard.join_share("b", "t")
    assert joined.assignment == {topic_id: frozenset({0})}
    assert not joined.to_initialize


def test_a_group_has_a_maximum_size() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    for member_id in ("a", "b", "c"):
        shard.join_share(member_id, "t")
    assert shard.beat("d", 0, ("t",)).error is ErrorCode.group_max_size_reached
    assert shard.beat("c", 0, ("t",)).error is ErrorCode.none


def test_a_response_waits_until_its_records_are_committed() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    shard.holds_commits = True
    answers = shard.beat_later("a", 0, ("t",))
    assert answers == []
    shard.commit_all()
    assert [answer.error for answer in answers] == [ErrorCode.none]


def test_a_failed_write_is_answered_with_its_error() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    shard.holds_commits = True
    answers = shard.beat_later("a", 0, ("t",))
    shard.fail_all(ErrorCode.coordinator_not_available)
    assert [answer.error for answer in answers] == [ErrorCode.coordinator_not_available]


@pytest.mark.parametrize(
    ("member_id", "epoch", "topics", "group_id", "rack_id"),
    [
        ("", 0, ("t",), "g", None),
        ("a", 0, ("t",), "", None),
        ("a", 0, None, "g", None),
        ("a", 0, (), "g", None),
        ("a", -2, ("t",), "g", None),
        ("a", 0, ("t",), "g", ""),
        (" ", 0, ("t",), "g", None),
        ("a", 0, ("t",), " ", None),
        ("a" * 40_000, 0, ("t",), "g", None),
    ],
)
def test_an_invalid_request_is_rejected(
    member_id: str, epoch: int, topics: tuple[str, ...] | None, group_id: str, rack_id: str | None
) -> None:
    shard = ShareShard()
    (answer,) = shard.beat_later(member_id, epoch, topics, group_id, rack_id)
    assert answer.error is ErrorCode.invalid_request
    assert answer.message
    assert shard.log == []


def test_a_group_without_a_first_member_does_not_exist() -> None:
    shard = ShareShard()
    for epoch in (1, LEAVING):
        answer = shard.beat("a", epoch)
        assert answer.error is ErrorCode.group_id_not_found


def test_a_group_of_another_kind_cannot_be_joined() -> None:
    shard = ShareShard()
    shard.make_topic("t")
    shard.commit(1, group_id="classic")
    answer = shard.beat("a", 0, ("t",), "classic")
    assert (answer.error, answer.message) == (ErrorCode.group_id_not_found, "Group classic is not a share group.")


def test_members_have_new_sessions_after_a_restart() -> None:
    shard = ShareShard()
    topic_id = shard.make_topic("t")
    epoch = shard.join_share("a", "t").member_epoch
    shard.advance(SESSION_MS - 1)
    shard.crash()
    shard.advance(SESSION_MS - 1)
    assert shard.beat("a", epoch).error is ErrorCode.none
    assert shard.group().current("a").assigned == {topic_id: frozenset({0})}
    shard.advance(SESSION_MS)
    assert shard.group().is_empty
