"""SyncGroup (key 14): the leader sends the assignments, and every member receives its own.

Behaviour
    The response is sent when the leader's assignments are durable. After the rebalance timeout, members that have not sent this
    request are removed, and the others have to rejoin.
Versions
    0-5. Instance ids since 3. The protocol (KIP-559) since 5: without it the response has INCONSISTENT_GROUP_PROTOCOL.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.coordination.groups.classic.commands import SyncRequest, SyncResponse
from catchment.protocol.errors import ApiError

_FIRST_VERSION_WITH_PROTOCOL = 5


@api(14, versions=(0, 5), cancel_on_disconnect=True)
async def sync_group(context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
    try:
        if context.header.api_version >= _FIRST_VERSION_WITH_PROTOCOL and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        answer = await context.services.groups.sync(
            SyncRequest(
                group_id=request.group_id,
                generation=request.generation_id,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments={one.member_id: one.assignment for one in request.assignments},
            )
        )
    except ApiError as error:
        answer = SyncResponse(error.code)
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
