"""SyncGroup (key 14): the leader hands in the assignments, and every member gets its own.

Behaviour
    The answer comes when the leader's assignments are safe in the log, at most after the rebalance time-out: then those who
    have not asked are put out, and the others are told to join again.
Versions
    0-5. Instance ids from 3 on, the protocol (KIP-559) from 5 on.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.coordination.commands import SyncAnswer, SyncRequest
from catchment.protocol.errors import ApiError


@api(14, versions=(0, 5))
async def sync_group(context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
    try:
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
        answer = SyncAnswer(error.code)
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
