"""LeaveGroup (key 13): remove members, which starts a rebalance at once.

Behaviour
    Each member has its own result. An admin client may name a static member by its instance id alone.
Versions
    0-5. One member up to 2, many since 3 (KIP-345), the reason (KIP-800) since 5.
Gaps
    The reason is not logged.
"""

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.coordination.groups.classic.commands import LeavingMember
from catchment.protocol.errors import ApiError


@api(13, versions=(0, 5))
async def leave_group(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    leaving = [LeavingMember(member.member_id, member.group_instance_id) for member in request.members]
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        outcomes = await context.services.groups.leave(request.group_id, leaving)
    except ApiError as error:
        return LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=error.code, members=())
    return LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        members=tuple(
            MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=outcome)
            for member, outcome in zip(leaving, outcomes, strict=True)
        ),
    )
