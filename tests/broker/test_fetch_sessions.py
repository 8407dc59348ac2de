"""Which sessions are kept: a bounded number, with a bounded number of partitions in all of them together."""

from random import Random

import pytest
from kio.schema.errors import ErrorCode

from catchment.broker.fetch_sessions import NO_SESSION, FetchSession, FetchSessions
from catchment.protocol.errors import ApiError
from catchment.protocol.fetch import FetchRequest, PartitionRequest, PartitionResponse, TopicRequest
from catchment.protocol.produce import TopicKey

LIMIT = 100


def request(count: int, *, session: tuple[int, int] = (0, 0), start: int = 0, forgotten: int = 0) -> FetchRequest:
    """A request for so many partitions from `start` on, which forgets as many as it says."""
    asked = [PartitionRequest(number, fetch_offset=0, max_bytes=1) for number in range(start, start + count)]
    gone: list[tuple[TopicKey, list[int]]] = [("topic", list(range(forgotten)))]
    return FetchRequest(-1, -1, 0, 0, 1, 0, *session, [TopicRequest("topic", asked)], gone, "", False)


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(10, Random(1), max_partitions=LIMIT)


def is_kept(sessions: FetchSessions, session: FetchSession) -> bool:
    try:
        return sessions.open(request(0, session=(session.id, session.epoch))) is session
    except ApiError as error:
        if error.code is not ErrorCode.fetch_session_id_not_found:
            raise
        return False


def test_beyond_the_number_of_sessions_the_least_recently_used_is_evicted(sessions: FetchSessions) -> None:
    kept = [sessions.open(request(1)) for _ in range(10)]
    assert is_kept(sessions, kept[0])
    sessions.open(request(1))
    assert (len(sessions), sessions.partition_count) == (10, 10)
    assert is_kept(sessions, kept[0])
    assert not is_kept(sessions, kept[1])


def test_beyond_the_number_of_partitions_the_least_recently_used_session_is_evicted(sessions: FetchSessions) -> None:
    first, second = sessions.open(request(40)), sessions.open(request(60))
    assert sessions.partition_count == LIMIT
    assert is_kept(sessions, first)
    third = sessions.open(request(1))
    assert sessions.partition_count == 41
    assert is_kept(sessions, first)
    assert is_kept(sessions, third)
    assert not is_kept(sessions, second)


def test_a_session_that_grows_evicts_others_and_finally_itself(sessions: FetchSessions) -> None:
    other, growing = sessions.open(request(50)), sessions.open(request(50))
    assert len(sessions.open(request(1, session=(growing.id, 1), start=50))) == 51
    assert not is_kept(sessions, other)
    too_large = sessions.open(request(LIMIT, session=(growing.id, 2)))
    assert len(too_large) == LIMIT
    assert is_kept(sessions, growing)
    assert len(sessions.open(request(1, session=(growing.id, 4), start=LIMIT))) == LIMIT + 1
    assert not is_kept(sessions, growing)
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_what_is_forgotten_ended_or_without_a_session_is_not_counted(sessions: FetchSessions) -> None:
    session = sessions.open(request(50))
    sessions.open(request(0, session=(session.id, 1), forgotten=20))
    assert sessions.partition_count == 30
    assert sessions.open(request(LIMIT, session=(0, -1))).id == NO_SESSION
    assert sessions.partition_count == 30
    sessions.open(request(5, session=(session.id, -1)))
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_a_new_session_with_an_empty_response_is_not_counted(sessions: FetchSessions) -> None:
    opening = request(50)
    session = sessions.open(opening)
    assert sessions.leave(opening, session) == NO_SESSION
    assert (len(sessions), sessions.partition_count) == (0, 0)
    assert sessions.leave(opening, session) == NO_SESSION


def test_a_full_request_gets_a_full_response_even_if_the_session_has_advanced(sessions: FetchSessions) -> None:
    opening = request(2)
    session = sessions.open(opening)
    further = request(0, session=(session.id, 1))
    sessions.open(further)
    asked = next(iter(session.partitions()))
    nothing = PartitionResponse(0, 0)
    assert session.should_send(opening, asked, nothing)
    assert not session.should_send(further, asked, nothing)
