"""LeaveGroup: up to version 2 one member and one error, since version 3 many of both (KIP-345)."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse

from catchment.protocol.adapters.conversion import lift

_LAST_VERSION_WITH_ONE_MEMBER = 2


def lift_request(request: Any, newest_class: type[LeaveGroupRequest]) -> Any:
    if request.__version__ > _LAST_VERSION_WITH_ONE_MEMBER:
        return lift(request, newest_class)
    return lift(request, newest_class, members=(MemberIdentity(member_id=request.member_id),))


def lower_request(request: LeaveGroupRequest, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_ONE_MEMBER:
        return request
    (member,) = request.members
    return lift(request, version_class, member_id=member.member_id)


def lower_response(response: LeaveGroupResponse, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_ONE_MEMBER:
        return response
    error_code = response.error_code
    if error_code is ErrorCode.none and response.members:
        error_code = response.members[0].error_code
    return lift(response, version_class, error_code=error_code)
