"""ListGroups (key 16): the groups that this broker coordinates.

Behaviour
    The filters by state and type ignore case. While a partition of `__consumer_offsets` is loading, the response has
    COORDINATOR_LOAD_IN_PROGRESS: an incomplete list would look complete.
Versions
    0-5. Filter by state since 4 (KIP-518), by type since 5 (KIP-848).
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.types import GroupId

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError


@api(16, versions=(0, 5))
async def list_groups(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    try:
        found = await context.services.groups.listing()
    except ApiError as error:
        return ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=error.code, groups=())
    states = {state.lower() for state in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    return ListGroupsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        groups=tuple(
            [
                ListedGroup(
                    group_id=GroupId(group.group_id),
                    protocol_type=group.protocol_type,
                    group_state=group.state_name,
                    group_type=group.kind.value,
                )
                async for group in Turns()(found)
                if (not states or group.state_name.lower() in states) and (not types or group.kind.value in types)
            ]
        ),
    )
