"""ConsumerGroupDescribe (key 69): the epochs of a consumer group, and the current and target assignment of its members (KIP-848).

Behaviour
    A group that does not exist, or is of another type, gets GROUP_ID_NOT_FOUND with a message. Deleted topics are left out. The
    regular expression of a member without one is empty, as in Kafka. The response is sent once the state in it is durable.
Versions
    0-1. The type of each member (classic or consumer protocol) since 1.
Gaps
    None.
"""

from collections.abc import Collection, Mapping
from uuid import UUID

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32

from catchment.broker.admin.authorized_operations import NOT_REQUESTED, ON_GROUP
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.coordination.groups.consumer.group import CurrentAssignment
from catchment.coordination.groups.modern import MemberDescription
from catchment.protocol.errors import ApiError

_CLASSIC_MEMBER = i8(0)
_CONSUMER_MEMBER = i8(1)


@api(69, versions=(0, 1))
async def consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    operations = ON_GROUP if request.include_authorized_operations else NOT_REQUESTED
    asked = Turns()(dict.fromkeys(request.group_ids))
    groups = [await _described(context, group_id, operations) async for group_id in asked]
    return ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def _described(context: RequestContext, group_id: GroupId, operations: i32) -> DescribedGroup:
    try:
        if not group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        group = await context.services.groups.consumer_groups.describe(group_id)
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
        assignor_name=group.assignor,
        members=tuple(_member(context, member) for member in group.members),
        authorized_operations=operations,
    )


def _member(context: RequestContext, member: MemberDescription[CurrentAssignment]) -> Member:
    subscription = member.metadata
    return Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=i32(member.current.epoch),
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=tuple(map(TopicName, subscription.topics)),
        subscribed_topic_regex=subscription.regex or "",
        assignment=_assignment(context, member.current.assigned),
        target_assignment=_assignment(context, member.target),
        member_type=_CONSUMER_MEMBER if subscription.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(context: RequestContext, partitions: Mapping[UUID, Collection[int]]) -> Assignment:
    topics = context.image.topics_by_id
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(
                topic_id=topic_id,
                topic_name=TopicName(topics[topic_id].name),
                partitions=tuple(map(i32, sorted(numbers))),
            )
            for topic_id, numbers in partitions.items()
            if topic_id in topics
        )
    )
