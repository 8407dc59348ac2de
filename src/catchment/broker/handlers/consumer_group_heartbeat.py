"""ConsumerGroupHeartbeat (key 68): join a consumer group, stay in it, receive an assignment, and leave (KIP-848).

Behaviour
    Epoch 0 joins, -1 leaves, -2 is a static member that will return. A field that a member leaves out has not changed. The
    response has an assignment if it has changed, or if the member sent all its fields; it is sent once its content is durable.
    Members revoke partitions before other members get them. A classic group is converted when the first member of this protocol
    joins, if `group.consumer.migration.policy` allows it.
Versions
    0-1. Regular expressions, and member ids that clients generate (KIP-1082), since 1.
Gaps
    Assignments are computed at once, and regular expressions are resolved when topics change, so neither
    `group.consumer.assignment.interval.ms` nor `group.consumer.regex.refresh.interval.ms` has an effect.
"""

from datetime import timedelta

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i32Timedelta

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.coordination.groups.consumer.commands import HeartbeatRequest, HeartbeatResponse
from catchment.coordination.groups.modern import JOINING, PartitionsByTopic
from catchment.protocol.errors import ApiError

_FIRST_WITH_OWN_IDS = 1
_MILLISECOND = timedelta(milliseconds=1)


@api(68, versions=(0, 1))
async def consumer_group_heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_request, "A group needs an id.")
        answer = await context.services.groups.consumer_groups.heartbeat(_request(context, request))
    except ApiError as error:
        answer = HeartbeatResponse(error.code, error.message)
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=answer.error,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=i32(answer.epoch),
        heartbeat_interval=i32Timedelta.parse(timedelta(milliseconds=answer.heartbeat_interval_ms)),
        assignment=None if answer.assignment is None else _assignment(answer.assignment),
    )


def _request(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> HeartbeatRequest:
    makes_own_id = context.header.api_version >= _FIRST_WITH_OWN_IDS
    member_id = request.member_id
    if not member_id and not makes_own_id and request.member_epoch == JOINING:
        member_id = context.services.groups.new_member_id()
    owned = request.topic_partitions
    return HeartbeatRequest(
        group_id=request.group_id,
        member_id=member_id,
        epoch=request.member_epoch,
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // _MILLISECOND,
        topics=request.subscribed_topic_names,
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else {one.topic_id: frozenset(one.partitions) for one in owned if one.topic_id is not None},
        makes_own_id=makes_own_id,
    )


def _assignment(assignment: PartitionsByTopic) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(map(i32, sorted(numbers))))
            for topic_id, numbers in assignment.items()
        )
    )
