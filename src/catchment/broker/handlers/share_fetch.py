"""ShareFetch (key 78): acquire records of share partitions for a member of a share group (KIP-932).

Behaviour
    A share session holds the partitions that a member reads: epoch 0 opens it, -1 closes it and releases the records that the
    member holds, as does the loss of its connection. Acknowledgements in the request are persisted first. Then records are
    acquired. The response is sent at once if there are `min_bytes`; otherwise when enough records have arrived or were released,
    when `max_wait` is over (at most 30 s), or when the client closes its side.
    Batches are returned as the log stores them; the acquired offsets say which of their records belong to the member.
    While the share state of a partition is not available, the partition returns no records and no error.
    Records with many deliveries are returned in smaller portions, finally one by one, so that a bad record does not affect others.
Versions
    1-2. Since 2 the exact record limit (KIP-1206) and lock renewals (KIP-1222): a request that renews locks fetches nothing.
Gaps
    A result for a partition of another leader names that broker, but not its address.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.share_fetch.v2.request import AcknowledgementBatch, ShareFetchRequest
from kio.schema.share_fetch.v2.response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.acknowledgements import Outcome, acknowledge_all, session_key
from catchment.broker.share.fetching import FetchedRecords, FetchWaiter, Reader, locate, take
from catchment.broker.share.in_flight import FetchLimits
from catchment.broker.share.leader import ShareLeader
from catchment.broker.share.sessions import FINAL_EPOCH, FIRST_EPOCH, SessionKey, ShareSession, TopicPartition
from catchment.protocol.errors import ApiError
from catchment.protocol.headers import RequestHeader
from catchment.protocol.share_fetch import API_KEY, encode_response
from catchment.protocol.wire import Piece

_NO_TOPIC = UUID(int=0)
_BATCHES = 0
_RECORD_LIMIT = 1
_MILLISECOND = timedelta(milliseconds=1)
_NOT_AVAILABLE_YET = frozenset({ErrorCode.coordinator_not_available, ErrorCode.invalid_request})
"""The group coordinator has not initialized the share state, or is not available: the member retries by itself."""
_UNKNOWN = frozenset({ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition})
_HANDLED_BY_CLIENTS = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""The partition errors that Java's share consumer handles; any other error would stop it."""

_Acknowledgements = dict[TopicPartition, Sequence[AcknowledgementBatch]]


class _Fetched(NamedTuple):
    partition: TopicPartition
    taken: FetchedRecords = FetchedRecords()
    error: ApiError | None = None


def _encode(response: ShareFetchResponse, _: RequestHeader, throttle_time_ms: int = 0) -> Sequence[Piece]:
    return encode_response(response, throttle_time_ms)


@api(API_KEY, versions=(1, 2), encode=_encode, blocks_connection=True, cancel_on_disconnect=True)
async def share_fetch(context: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse:
    shares = context.services.share_partitions
    acknowledgements = _acknowledgements(request)
    try:
        key = session_key(request.group_id, request.member_id)
        _check_limits(request)
        session = _session(context, request, key, has_acknowledgements=bool(acknowledgements))
    except ApiError as error:
        return _response(error=error)
    outcomes = await acknowledge_all(shares, key, acknowledgements, has_renewals=request.is_renew_ack)
    found: list[_Fetched] = []
    if request.share_session_epoch == FINAL_EPOCH:
        shares.end_session(session)
    elif not request.is_renew_ack:
        found = await _fetch(context, request, session)
        _count(context, session, found)
    is_full = request.share_session_epoch == FIRST_EPOCH
    return _response(
        topics=_topics(context, found, outcomes, is_full=is_full),
        lock_duration_ms=shares.rules(key.group_id).lock_duration_ms,
    )


def _acknowledgements(request: ShareFetchRequest) -> _Acknowledgements:
    return {
        TopicPartition(topic.topic_id or _NO_TOPIC, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def _check_limits(request: ShareFetchRequest) -> None:
    if request.share_acquire_mode not in (_BATCHES, _RECORD_LIMIT):
        raise ApiError(ErrorCode.invalid_request, f"Unknown share acquire mode {request.share_acquire_mode}.")
    if request.is_renew_ack and (request.max_wait or request.min_bytes or request.max_bytes or request.max_records):
        raise ApiError(
            ErrorCode.invalid_request, "A request that renews locks must not fetch: all its limits must be 0."
        )


def _session(
    context: RequestContext, request: ShareFetchRequest, key: SessionKey, *, has_acknowledgements: bool
) -> ShareSession:
    """The session of the request, updated by it."""
    shares = context.services.share_partitions
    if request.share_session_epoch == FIRST_EPOCH:
        if has_acknowledgements:
            raise ApiError(
                ErrorCode.invalid_request, "The first request of a share session cannot have acknowledgements."
            )
        session = shares.sessions.open(key)
        if context.connection is not None:
            on_disconnect = context.connection.on_disconnect
            on_disconnect[session] = lambda: shares.end_session(session)
            session.forget_connection = lambda: on_disconnect.pop(session, None)
    else:
        session = shares.sessions.advance(key, request.share_session_epoch)
    added = [
        TopicPartition(topic.topic_id or _NO_TOPIC, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    forgotten = [
        TopicPartition(topic.topic_id or _NO_TOPIC, number)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]
    try:
        shares.sessions.update(session, added, forgotten)
    except ApiError:
        shares.end_session(session)
        raise
    return session


async def _fetch(context: RequestContext, request: ShareFetchRequest, session: ShareSession) -> list[_Fetched]:
    """Acquire records for the member, as soon as there are enough."""
    shares = context.services.share_partitions
    leaders: dict[TopicPartition, ShareLeader] = {}
    failed: list[_Fetched] = []
    for partition in session.partitions():
        try:
            leaders[partition] = shares.lead(session.key.group_id, partition)
        except ApiError as error:
            failed.append(_Fetched(partition, error=error))
    reader = _reader(context, request, session.key)
    # As with Fetch, an unknown partition does not end the wait while there are others to wait for.
    may_wait = leaders and all(each.error is not None and each.error.code in _UNKNOWN for each in failed)
    max_wait_ms = request.max_wait // _MILLISECOND if may_wait else 0
    with FetchWaiter(list(leaders.values()), max_wait_ms, context.connection) as waiter:
        has_time = max_wait_ms > 0
        # After the end of the session no member would receive the acquired records.
        while shares.sessions.is_open(session):
            found: list[_Fetched] = []
            if not has_time or _is_enough(leaders, reader, request.min_bytes):
                found = await _acquire_all(context, leaders, reader)
            if not has_time or any(each.taken.acquired or each.error is not None for each in found):
                return failed + found
            has_time = await waiter.wait()
    return []


def _reader(context: RequestContext, request: ShareFetchRequest, key: SessionKey) -> Reader:
    max_bytes = min(request.max_bytes, context.services.max_fetch_bytes())
    if context.meter is not None:
        max_bytes = min(max_bytes, context.meter.max_fetch_bytes())
    limits = FetchLimits(request.max_records, request.batch_size, request.share_acquire_mode == _RECORD_LIMIT)
    return Reader(key.member_id, limits, max_bytes, context.services.share_partitions.reads_committed(key.group_id))


def _is_enough(leaders: dict[TopicPartition, ShareLeader], reader: Reader, min_bytes: int) -> bool:
    size = 0
    for leader in leaders.values():
        if leader.error is not None and leader.error.code not in _NOT_AVAILABLE_YET:
            return True
        try:
            located = locate(leader, reader)
        except ApiError:
            return True
        size += 0 if located is None else located[1].size
        if size and size >= min_bytes:
            return True
    return False


async def _acquire_all(
    context: RequestContext, leaders: dict[TopicPartition, ShareLeader], reader: Reader
) -> list[_Fetched]:
    """Acquire from each partition in turn, within the limits of the request."""
    found: list[_Fetched] = []
    for partition, leader in leaders.items():
        if leader.error is not None:
            if leader.error.code not in _NOT_AVAILABLE_YET:
                found.append(_Fetched(partition, error=leader.error))
            continue
        taken, error = FetchedRecords(), None
        if reader.limits.max_records > 0 and reader.max_bytes > 0:
            try:
                taken = await take(context.services, leader, reader)
            except ApiError as failure:
                error = failure
        found.append(_Fetched(partition, taken, error))
        left = max(0, reader.limits.max_records - taken.record_count)
        reader = reader._replace(
            limits=reader.limits._replace(max_records=left), max_bytes=max(0, reader.max_bytes - len(taken.records))
        )
    return found


def _count(context: RequestContext, session: ShareSession, found: list[_Fetched]) -> None:
    size = sum(len(each.taken.records) for each in found)
    context.services.traffic.fetched(size)
    if context.meter is not None:
        # Acquired records are sent even beyond the quota: the client is throttled afterwards.
        context.meter.fetched(size)
    if session.key not in context.services.share_partitions.sessions:
        # The member left while its records were read.
        context.services.share_partitions.release(session.key)


def _topics(
    context: RequestContext, found: list[_Fetched], outcomes: dict[TopicPartition, Outcome], *, is_full: bool
) -> tuple[ShareFetchableTopicResponse, ...]:
    """Merge fetched records and the outcomes of acknowledgements; after the first response, partitions without either are left out."""
    by_partition = {each.partition: each for each in found if is_full or each.taken.acquired or each.error is not None}
    for partition in outcomes:
        by_partition.setdefault(partition, _Fetched(partition))
    topics: dict[UUID, list[PartitionData]] = {}
    for partition, each in by_partition.items():
        answer = _partition(context, each, outcomes.get(partition))
        topics.setdefault(partition.topic_id, []).append(answer)
    return tuple(
        ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
        for topic_id, partitions in topics.items()
    )


def _partition(context: RequestContext, found: _Fetched, outcome: Outcome) -> PartitionData:
    error = found.error
    code = ErrorCode.none if error is None else error.code
    topic = context.image.topics_by_id.get(found.partition.topic_id)
    state = None if topic is None else context.image.partition(topic.name, found.partition.partition)
    return PartitionData(
        partition_index=i32(found.partition.partition),
        error_code=code if error is None or code in _HANDLED_BY_CLIENTS else ErrorCode.unknown_server_error,
        error_message=None if error is None else error.message,
        acknowledge_error_code=i16(0 if outcome is None else outcome.code.value),
        acknowledge_error_message=None if outcome is None else outcome.message,
        current_leader=LeaderIdAndEpoch(
            leader_id=i32(-1 if state is None else state.leader),
            leader_epoch=i32(-1 if state is None else state.leader_epoch),
        ),
        # The encoder writes any buffer as it is; kio's type would copy it.
        records=cast("Records", found.taken.records),
        acquired_records=tuple(
            AcquiredRecords(
                first_offset=i64(each.first_offset),
                last_offset=i64(each.last_offset),
                delivery_count=i16(each.delivery_count),
            )
            for each in found.taken.acquired
        ),
    )


def _response(
    *,
    topics: tuple[ShareFetchableTopicResponse, ...] = (),
    lock_duration_ms: int = 0,
    error: ApiError | None = None,
) -> ShareFetchResponse:
    return ShareFetchResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        acquisition_lock_timeout=i32Timedelta.parse(lock_duration_ms * _MILLISECOND),
        responses=topics,
        node_endpoints=(),
    )
