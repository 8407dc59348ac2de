"""DeleteGroups (key 42): delete groups without members, with their committed offsets.

Behaviour
    Each group has its own result, sent once its deletion is durable in the log. The share state of a share group is deleted too.
Versions
    0-2. Version 2 is the first flexible one.
Gaps
    None.
"""

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError


@api(42, versions=(0, 2))
async def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    results = [
        DeletableGroupResult(group_id=group_id, error_code=await _delete(context, group_id))
        async for group_id in Turns()(dict.fromkeys(request.groups_names))
    ]
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


async def _delete(context: RequestContext, group_id: GroupId) -> ErrorCode:
    services = context.services
    try:
        if group_id and services.share_groups.exists(group_id):
            return await services.share_groups.delete(group_id)
        return await services.groups.delete(group_id)
    except ApiError as error:
        return error.code
