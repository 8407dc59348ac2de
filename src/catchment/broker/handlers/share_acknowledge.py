"""ShareAcknowledge (key 79): acknowledge records that a member of a share group has acquired (KIP-932).

Behaviour
    The acknowledgements of a partition are applied all or not at all; the response is sent when they are durable. If that fails, the
    member keeps its acquisition locks. Epoch -1 closes the session afterwards, which releases the records that the member still
    holds. Acknowledgements of records below the log start succeed.
Versions
    1-2. Version 2 renews acquisition locks (KIP-1222).
Gaps
    A result for a partition of another leader names that broker, but not its address.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.share_acknowledge.v2.request import AcknowledgementBatch, ShareAcknowledgeRequest
from kio.schema.share_acknowledge.v2.response import (
    LeaderIdAndEpoch,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kio.static.primitive import i32, i32Timedelta

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.acknowledgements import Outcome, acknowledge_all, session_key
from catchment.broker.share.sessions import FINAL_EPOCH, FIRST_EPOCH, TopicPartition
from catchment.protocol.errors import ApiError

_NO_TOPIC = UUID(int=0)
_MILLISECOND = timedelta(milliseconds=1)


@api(79, versions=(1, 2))
async def share_acknowledge(context: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    shares = context.services.share_partitions
    try:
        key = session_key(request.group_id, request.member_id)
        if request.share_session_epoch == FIRST_EPOCH:
            raise ApiError(ErrorCode.invalid_share_session_epoch)
        session = shares.sessions.advance(key, request.share_session_epoch)
    except ApiError as error:
        return _response(error=error)
    outcomes = await acknowledge_all(shares, key, _acknowledgements(request), has_renewals=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        shares.end_session(session)
    return _response(topics=_topics(context, outcomes), lock_duration_ms=shares.rules(key.group_id).lock_duration_ms)


def _acknowledgements(request: ShareAcknowledgeRequest) -> dict[TopicPartition, Sequence[AcknowledgementBatch]]:
    return {
        TopicPartition(topic.topic_id or _NO_TOPIC, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }


def _topics(
    context: RequestContext, outcomes: dict[TopicPartition, Outcome]
) -> tuple[ShareAcknowledgeTopicResponse, ...]:
    topics: dict[UUID, list[PartitionData]] = {}
    for partition, outcome in outcomes.items():
        topics.setdefault(partition.topic_id, []).append(_partition(context, partition, outcome))
    return tuple(
        ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
        for topic_id, partitions in topics.items()
    )


def _partition(context: RequestContext, asked: TopicPartition, outcome: Outcome) -> PartitionData:
    topic = context.image.topics_by_id.get(asked.topic_id)
    state = None if topic is None else context.image.partition(topic.name, asked.partition)
    return PartitionData(
        partition_index=i32(asked.partition),
        error_code=ErrorCode.none if outcome is None else outcome.code,
        error_message=None if outcome is None else outcome.message,
        current_leader=LeaderIdAndEpoch(
            leader_id=i32(-1 if state is None else state.leader),
            leader_epoch=i32(-1 if state is None else state.leader_epoch),
        ),
    )


def _response(
    *,
    topics: tuple[ShareAcknowledgeTopicResponse, ...] = (),
    lock_duration_ms: int = 0,
    error: ApiError | None = None,
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        acquisition_lock_timeout=i32Timedelta.parse(lock_duration_ms * _MILLISECOND),
        responses=topics,
        node_endpoints=(),
    )
