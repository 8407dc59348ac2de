"""FindCoordinator (key 10): the broker that coordinates a group or a transactional id.

Behaviour
    Each key has its own result (KIP-699). The first group creates `__consumer_offsets`, the first transactional id
    `__transaction_state`, and the response waits for it. The coordinator of a share state has the key
    "group:topic id:partition"; that of a share group is the group coordinator.
Versions
    0-6. One key up to 3, many since 4; share states since 6.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.cluster.metadata import Endpoint
from catchment.protocol.errors import ApiError

_GROUPS = 0
_TRANSACTIONS = 1
_SHARE_STATES = 2
_FIRST_VERSION_WITH_SHARE_STATES = 6


@api(10, versions=(0, 6))
async def find_coordinator(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    keys = Turns()(dict.fromkeys(request.coordinator_keys))
    coordinators = [await _coordinator(context, key, request.key_type) async for key in keys]
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(coordinators))


async def _coordinator(context: RequestContext, key: str, key_type: int) -> Coordinator:
    try:
        node_id, endpoint = await _find(context, key, key_type)
    except ApiError as error:
        return Coordinator(
            key=key, node_id=BrokerId(-1), host="", port=i32(-1), error_code=error.code, error_message=error.message
        )
    return Coordinator(
        key=key,
        node_id=BrokerId(node_id),
        host=endpoint.host,
        port=i32(endpoint.port),
        error_code=ErrorCode.none,
        error_message=None,
    )


async def _find(context: RequestContext, key: str, key_type: int) -> tuple[int, Endpoint]:
    if key_type == _SHARE_STATES and context.header.api_version >= _FIRST_VERSION_WITH_SHARE_STATES:
        partition = await context.services.share_state.find(key)
    elif key_type == _TRANSACTIONS:
        partition = await context.services.transactions.find(key)
    elif key_type == _GROUPS:
        partition = await context.services.groups.find(key)
    else:
        raise ApiError(ErrorCode.invalid_request, f"Unknown type of coordinator: {key_type}")
    broker = context.image.brokers.get(partition.leader)
    endpoint = None if broker is None else broker.endpoints.get(context.listener_name)
    if endpoint is None:
        raise ApiError(ErrorCode.coordinator_not_available, f"The coordinator of '{key}' has no leader at the moment.")
    return partition.leader, endpoint
