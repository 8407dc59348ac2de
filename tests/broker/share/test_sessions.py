"""Share sessions: epochs, limits, the rotation of partitions, and what ends with a session."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from catchment.broker.share.sessions import FINAL_EPOCH, SessionKey, ShareSessions, TopicPartition
from catchment.protocol.errors import ApiError

KEY = SessionKey("group", "member")
LAST_EPOCH = (1 << 31) - 1
PARTITIONS = [TopicPartition(UUID(int=1), number) for number in range(3)]


def test_epochs_wrap_around_to_one() -> None:
    sessions = ShareSessions(1)
    session = sessions.open(KEY)
    session.epoch = LAST_EPOCH
    sessions.advance(KEY, LAST_EPOCH)
    assert session.epoch == 1


def test_the_final_epoch_is_valid_for_any_session_and_does_not_change_it() -> None:
    sessions = ShareSessions(1)
    session = sessions.open(KEY)
    assert sessions.advance(KEY, FINAL_EPOCH) is session
    assert session.epoch == 1


def test_one_session_above_the_limit_is_rejected_until_another_ends() -> None:
    sessions = ShareSessions(2)
    first = sessions.open(KEY)
    sessions.open(SessionKey("group", "second"))
    with pytest.raises(ApiError) as refused:
        sessions.open(SessionKey("other", "third"))
    assert refused.value.code is ErrorCode.share_session_limit_reached
    sessions.close(first)
    sessions.open(SessionKey("other", "third"))
    assert len(sessions) == 2


def test_one_partition_above_the_limit_is_rejected_until_there_is_room() -> None:
    sessions = ShareSessions(5, max_partitions=4)
    first, second = sessions.open(KEY), sessions.open(SessionKey("group", "second"))
    sessions.update(first, PARTITIONS, [])
    sessions.update(second, PARTITIONS[:1], [])
    assert sessions.partition_count == 4
    sessions.update(second, PARTITIONS[:1], [])
    with pytest.raises(ApiError) as refused:
        sessions.update(second, PARTITIONS[:2], [])
    assert refused.value.code is ErrorCode.share_session_limit_reached
    sessions.update(first, [], PARTITIONS[:1])
    assert sessions.partition_count == 4
    sessions.close(second)
    assert sessions.partition_count == 2
    sessions.open(KEY)
    assert sessions.partition_count == 0


def test_a_connection_is_notified_when_its_session_ends_or_is_replaced() -> None:
    sessions = ShareSessions(1)
    heard: list[str] = []
    sessions.open(KEY).forget_connection = lambda: heard.append("replaced")
    newer = sessions.open(KEY)
    newer.forget_connection = lambda: heard.append("closed")
    assert heard == ["replaced"]
    sessions.close(newer)
    assert heard == ["replaced", "closed"]


def test_a_group_is_present_as_long_as_it_has_a_session() -> None:
    sessions = ShareSessions(5)
    first, second = sessions.open(KEY), sessions.open(SessionKey("group", "second"))
    sessions.close(first)
    assert sessions.has_group("group")
    sessions.close(second)
    assert not sessions.has_group("group")


def test_every_partition_is_first_in_turn() -> None:
    sessions = ShareSessions(1)
    session = sessions.open(KEY)
    session.update(PARTITIONS, [])
    firsts = set()
    for epoch in range(1, 4):
        firsts.add(sessions.advance(KEY, epoch).partitions()[0])
        assert sorted(session.partitions()) == PARTITIONS
    assert firsts == set(PARTITIONS)


def test_a_partition_that_is_added_and_removed_at_once_is_not_kept() -> None:
    session = ShareSessions(1).open(KEY)
    session.update(PARTITIONS, PARTITIONS[:2])
    assert session.partitions() == PARTITIONS[2:]
