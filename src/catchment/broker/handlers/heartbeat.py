"""Heartbeat (key 12): keep a member's session alive, and report whether it has to rejoin.

Behaviour
    A heartbeat restarts the member's session timeout. While a rebalance waits for members to join, the response has
    REBALANCE_IN_PROGRESS. While the coordinator loads its log, the response has no error, as in Kafka: clients would treat
    COORDINATOR_LOAD_IN_PROGRESS as a lost coordinator.
Versions
    0-4. Instance ids since 3.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.protocol.errors import ApiError


@api(12, versions=(0, 4))
async def heartbeat(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=_outcome(context, request))


def _outcome(context: RequestContext, request: HeartbeatRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.invalid_group_id
    try:
        return context.services.groups.heartbeat(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        )
    except ApiError as error:
        return ErrorCode.none if error.code is ErrorCode.coordinator_load_in_progress else error.code
