"""Fetch sessions of the client: what each request carries, and responses at every version."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchRequest

from catchment.client.fetch.session import FetchLimits, FetchResponse, FetchSession, Wanted, decode_response
from catchment.protocol.codec import decode_request, encode_request
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.fetch import PartitionResponse, TopicResponse, encode_response

TOPIC_ID = UUID(int=7)
NEW_TOPIC_ID = UUID(int=8)


def session_of(*partitions: int) -> FetchSession:
    session = FetchSession(FetchLimits(), read_committed=True)
    for partition in partitions:
        session.want(("topic", partition), Wanted(10 * partition, 3, TOPIC_ID))
    return session


def asked(request: FetchRequest) -> dict[int, int]:
    return {one.partition: one.fetch_offset for topic in request.topics for one in topic.partitions}


def forgotten(request: FetchRequest) -> list[tuple[UUID | None, tuple[int, ...]]]:
    return [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]


def good_response(session_id: int = 5) -> FetchResponse:
    return FetchResponse(0, 0, session_id, [])


def test_a_session_starts_with_a_full_request_and_continues_with_changes() -> None:
    session = session_of(0, 1, 2)
    first = session.request()
    assert (first.session_id, first.session_epoch, asked(first)) == (0, 0, {0: 0, 1: 10, 2: 20})
    assert (first.isolation_level, first.topics[0].partitions[0].current_leader_epoch) == (1, 3)
    session.accept(good_response())
    session.move(("topic", 1), 15)
    session.drop(("topic", 2))
    second = session.request()
    assert (second.session_id, second.session_epoch, asked(second)) == (5, 1, {1: 15})
    assert forgotten(second) == [(TOPIC_ID, (2,))]
    session.accept(good_response())
    third = session.request()
    assert (third.session_epoch, asked(third), forgotten(third)) == (2, {}, [])


def test_without_a_session_every_request_is_complete() -> None:
    session = FetchSession(FetchLimits(), read_committed=True, is_kept=False)
    session.want(("topic", 0), Wanted(10, 3, TOPIC_ID))
    for offset in (10, 15):
        session.move(("topic", 0), offset)
        request = session.request()
        assert (request.session_id, request.session_epoch, asked(request)) == (0, -1, {0: offset})
        session.accept(good_response(session_id=0))
        assert not session.is_open
    session.drop(("topic", 0))
    assert forgotten(session.request()) == []


@pytest.mark.parametrize(
    "response",
    [
        FetchResponse(0, ErrorCode.fetch_session_id_not_found, 0, []),
        FetchResponse(0, ErrorCode.invalid_fetch_session_epoch, 5, []),
        FetchResponse(0, 0, 0, []),
    ],
)
def test_a_session_that_the_broker_lost_or_never_created_is_started_again(response: FetchResponse) -> None:
    session = session_of(0, 1)
    session.request()
    session.accept(good_response())
    session.request()
    session.accept(response)
    request = session.request()
    assert (request.session_id, request.session_epoch, asked(request)) == (0, 0, {0: 0, 1: 10})
    assert not session.is_open


def test_a_recreated_topic_is_requested_by_its_new_id() -> None:
    session = session_of(0)
    session.request()
    session.accept(good_response())
    session.want(("topic", 0), Wanted(0, 0, NEW_TOPIC_ID))
    request = session.request()
    assert [topic.topic_id for topic in request.topics] == [NEW_TOPIC_ID]
    assert forgotten(request) == [(TOPIC_ID, (0,))]


def test_the_epoch_wraps_around_to_one() -> None:
    session = session_of(0)
    session.request()
    session.accept(good_response())
    session._epoch = 2**31 - 1
    session.accept(good_response())
    assert session.request().session_epoch == 1


def test_the_last_request_closes_the_session() -> None:
    session = session_of(0)
    session.request()
    session.accept(good_response())
    assert session.is_open
    request = session.closing_request()
    assert (request.session_id, request.session_epoch, asked(request)) == (5, -1, {})


def test_partitions_of_responses_are_found_by_id_and_name_and_only_while_wanted() -> None:
    session = session_of(0, 1)
    session.request()
    session.drop(("topic", 1))
    partitions = [PartitionResponse(0, 0), PartitionResponse(1, 0)]
    for key in (TOPIC_ID, "topic"):
        response = FetchResponse(0, 0, 5, [TopicResponse(key, partitions), TopicResponse(UUID(int=99), partitions)])
        assert [topic_partition for topic_partition, _ in session.wanted_partitions(response)] == [("topic", 0)]


@pytest.mark.parametrize("version", range(4, 19))
def test_requests_are_written_at_every_version(version: int) -> None:
    decoded = decode_request(1, version, encode_request(session_of(0, 1).request(), version))
    assert asked(decoded) == {0: 0, 1: 10}
    assert [topic.topic_id if version >= 13 else topic.topic for topic in decoded.topics] == [
        TOPIC_ID if version >= 13 else "topic"
    ]


partition_responses = st.builds(
    PartitionResponse,
    partition=st.integers(0, 9),
    error_code=st.sampled_from([0, 1, 6]),
    high_watermark=st.integers(-1, 2**63 - 1),
    last_stable_offset=st.integers(-1, 2**63 - 1),
    log_start_offset=st.integers(-1, 2**63 - 1),
    aborted=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3),
    preferred_read_replica=st.integers(-1, 9),
    records=st.binary(max_size=200),
    diverging_epoch=st.none() | st.just((1, 2)),
    current_leader=st.none() | st.just((3, 4)),
)


@given(st.integers(4, 18), st.lists(partition_responses, max_size=4), st.integers(0, 99))
def test_responses_are_decoded_as_they_were_encoded(
    version: int, partitions: list[PartitionResponse], session: int
) -> None:
    key = TOPIC_ID if version >= 13 else "topic"
    pieces = encode_response([TopicResponse(key, partitions)], version, session_id=session, throttle_time_ms=3)
    response = decode_response(b"".join(pieces), version)
    assert (response.throttle_time_ms, response.session_id) == (3, session if version >= 7 else 0)
    assert response.topics[0].topic == key
    for written, read in zip(partitions, response.topics[0].partitions, strict=True):
        assert (read.partition, read.error_code, read.high_watermark) == written[:3]
        assert (read.last_stable_offset, read.aborted) == (written.last_stable_offset, written.aborted)
        assert read.log_start_offset == (written.log_start_offset if version >= 5 else -1)
        assert bytes(read.records) == written.records


@given(st.binary(max_size=100), st.integers(4, 18))
def test_invalid_responses_are_rejected_or_decoded_without_a_crash(data: bytes, version: int) -> None:
    try:
        response = decode_response(data, version)
    except MalformedRequest:
        return
    assert sum(len(one.records) for topic in response.topics for one in topic.partitions) <= len(data)
