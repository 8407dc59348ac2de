"""DescribeGroups (key 15): the state, protocol and members of classic groups.

Behaviour
    Metadata and assignments are returned while the group is stable; during a rebalance they are not valid. A group that does not
    exist, or is of another type, is described as Dead.
Versions
    0-6. Authorized operations since 3, instance ids since 4. Since 6 (KIP-1043) a group that does not exist gets
    GROUP_ID_NOT_FOUND; before, it is no error.
Gaps
    None.
"""

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from kio.static.primitive import i32

from catchment.broker.admin.authorized_operations import NOT_REQUESTED, ON_GROUP
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.coordination.groups.classic.group import GroupState
from catchment.protocol.errors import ApiError

_FIRST_WITH_MESSAGES = 6


@api(15, versions=(0, 6))
async def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    operations = ON_GROUP if request.include_authorized_operations else NOT_REQUESTED
    turns = Turns()
    groups = [
        await _described(context, group_id, operations) async for group_id in turns(dict.fromkeys(request.groups))
    ]
    return DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def _described(context: RequestContext, group_id: GroupId, operations: i32) -> DescribedGroup:
    try:
        if not group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        group = await context.services.groups.describe(group_id)
    except ApiError as error:
        return _failed(context, group_id, error)
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=operations,
    )


def _failed(context: RequestContext, group_id: GroupId, error: ApiError) -> DescribedGroup:
    is_missing = error.code is ErrorCode.group_id_not_found
    has_messages = context.header.api_version >= _FIRST_WITH_MESSAGES
    return DescribedGroup(
        error_code=ErrorCode.none if is_missing and not has_messages else error.code,
        error_message=error.message if has_messages else None,
        group_id=group_id,
        group_state=GroupState.DEAD.value if is_missing else "",
        protocol_type="",
        protocol_data="",
        members=(),
    )
