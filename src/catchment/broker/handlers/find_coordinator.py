"""FindCoordinator (key 10): which broker looks after a group or a transaction.

Behaviour
    Each key is answered for itself (KIP-699).
Versions
    0-6. One key up to 3, many from 4 on; share groups from 6 on.
Gaps
    There are no coordinators yet: every key gets COORDINATOR_NOT_AVAILABLE, on which clients wait and ask again.
"""

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api

_KINDS = {0: "groups", 1: "transactions", 2: "share groups"}


@api(10, versions=(0, 6))
async def find_coordinator(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        throttle_time=NO_THROTTLE,
        coordinators=tuple(_coordinator(key, request.key_type) for key in request.coordinator_keys),
    )


def _coordinator(key: str, key_type: int) -> Coordinator:
    kind = _KINDS.get(key_type)
    if kind is None:
        code, message = ErrorCode.invalid_request, f"Unknown type of coordinator: {key_type}"
    else:
        code, message = ErrorCode.coordinator_not_available, f"This broker has no coordinator of {kind} yet."
    return Coordinator(key=key, node_id=BrokerId(-1), host="", port=i32(-1), error_code=code, error_message=message)
