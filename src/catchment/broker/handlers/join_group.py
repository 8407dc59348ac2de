"""JoinGroup (key 11): join a classic group, or its next generation.

Behaviour
    The response is sent when all members have joined, at the latest after the longest rebalance timeout among them. An empty
    group waits for `group.initial.rebalance.delay.ms`. A static member (KIP-345) that returns keeps its assignment without a
    rebalance if the group's protocol stays the same; a static leader then skips the assignment (KIP-814).
Versions
    0-9. A rebalance timeout since 1, MEMBER_ID_REQUIRED (KIP-394) since 4, instance ids since 5, a null protocol since 7, the
    reason (KIP-800) since 8, skipped assignments since 9.
Gaps
    The reason is not logged.
"""

from datetime import timedelta

from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.static.primitive import i32

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.coordination.groups.classic.commands import JoinRequest, JoinResponse
from catchment.protocol.errors import ApiError

_FIRST_REQUIRING_A_MEMBER_ID = 4
_FIRST_SKIPPING_ASSIGNMENTS = 9
_MILLISECOND = timedelta(milliseconds=1)


@api(11, versions=(0, 9), cancel_on_disconnect=True)
async def join_group(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    try:
        answer = await context.services.groups.join(_request(context, request))
    except ApiError as error:
        answer = JoinResponse(error.code, request.member_id)
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=answer.error,
        generation_id=i32(answer.generation),
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader_id,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in answer.members
        ),
    )


def _request(context: RequestContext, request: JoinGroupRequest) -> JoinRequest:
    version = context.header.api_version
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
        session_timeout_ms=request.session_timeout // _MILLISECOND,
        rebalance_timeout_ms=request.rebalance_timeout // _MILLISECOND,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        fresh_id=context.services.groups.new_member_id(),
        requires_known_member_id=version >= _FIRST_REQUIRING_A_MEMBER_ID,
        supports_skipping_assignment=version >= _FIRST_SKIPPING_ASSIGNMENTS,
    )
