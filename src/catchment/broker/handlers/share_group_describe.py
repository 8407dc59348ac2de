"""ShareGroupDescribe (key 77): share groups with their members and assignments (KIP-932).

Behaviour
    Each group has its own result. A group that does not exist, or is of another type, gets GROUP_ID_NOT_FOUND. Deleted topics are
    left out of the assignments.
Versions
    1. Version 0 was the early access of Kafka 4.0.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_describe.v1.response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from catchment.broker.admin.authorized_operations import NOT_REQUESTED, ON_GROUP
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.coordination.assignors.simple import NAME as ASSIGNOR_NAME
from catchment.coordination.groups.modern import MemberDescription
from catchment.coordination.groups.share.group import ShareAssignment
from catchment.protocol.errors import ApiError


@api(77, versions=(1, 1))
async def share_group_describe(
    context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    operations = ON_GROUP if request.include_authorized_operations else NOT_REQUESTED
    asked = Turns()(dict.fromkeys(request.group_ids))
    groups = [await _described(context, group_id, operations) async for group_id in asked]
    return ShareGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def _described(context: RequestContext, group_id: GroupId, operations: i32) -> DescribedGroup:
    try:
        if not group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        group = await context.services.share_groups.describe(group_id)
    except ApiError as error:
        return DescribedGroup(
            error_code=error.code,
            error_message=error.message,
            group_id=group_id,
            group_state="",
            group_epoch=i32(0),
            assignment_epoch=i32(0),
            assignor_name="",
            members=(),
        )
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=i32(group.epoch),
        assignment_epoch=i32(group.assignment_epoch),
        assignor_name=ASSIGNOR_NAME,
        members=tuple(_member(context, member) for member in group.members),
        authorized_operations=operations,
    )


def _member(context: RequestContext, described: MemberDescription[ShareAssignment]) -> Member:
    topics = context.image.topics_by_id
    return Member(
        member_id=described.member_id,
        rack_id=described.metadata.rack_id,
        member_epoch=i32(described.current.epoch),
        client_id=described.metadata.client_id,
        client_host=described.metadata.client_host,
        subscribed_topic_names=tuple(map(TopicName, described.metadata.topics)),
        assignment=Assignment(
            topic_partitions=tuple(
                TopicPartitions(
                    topic_id=topic_id,
                    topic_name=TopicName(topics[topic_id].name),
                    partitions=tuple(map(i32, sorted(numbers))),
                )
                for topic_id, numbers in described.current.assigned.items()
                if topic_id in topics
            )
        ),
    )
