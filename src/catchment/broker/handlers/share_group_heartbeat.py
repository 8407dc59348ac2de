"""ShareGroupHeartbeat (key 76): join a share group, stay in it, change the subscription, and leave (KIP-932).

Behaviour
    The member generates its own id, and joins with epoch 0; epoch -1 leaves. The response has an assignment whenever the member may
    not have the current one. New members get partitions at once: no other member has to revoke them first. A group of another type
    with this id gets GROUP_ID_NOT_FOUND.
Versions
    1. Version 0 was the early access of Kafka 4.0.
Gaps
    `share.assignment.interval.ms` has no effect: assignments are computed at once.
"""

from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.share_group_heartbeat.v1.response import Assignment, ShareGroupHeartbeatResponse, TopicPartitions
from kio.static.primitive import i32, i32Timedelta

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.coordination.groups.modern import PartitionsByTopic
from catchment.coordination.groups.share.heartbeat import HeartbeatRequest, HeartbeatResponse
from catchment.protocol.errors import ApiError


@api(76, versions=(1, 1))
async def share_group_heartbeat(
    context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    topics = request.subscribed_topic_names
    asked = HeartbeatRequest(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id,
        None if topics is None else tuple(topics),
        context.client_id,
        f"/{context.client_host}",
    )
    try:
        answer = await context.services.share_groups.heartbeat(asked)
    except ApiError as error:
        answer = HeartbeatResponse(error.code, error.message)
    has_failed = answer.error is not ErrorCode.none
    return ShareGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=answer.error,
        error_message=answer.message,
        member_id=None if has_failed else request.member_id,
        member_epoch=i32(answer.member_epoch),
        heartbeat_interval=i32Timedelta.parse(timedelta(milliseconds=answer.heartbeat_interval_ms)),
        assignment=None if answer.assignment is None else _assignment(answer.assignment),
    )


def _assignment(assigned: PartitionsByTopic) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(map(i32, sorted(assigned[topic_id]))))
            for topic_id in sorted(assigned)
        )
    )
