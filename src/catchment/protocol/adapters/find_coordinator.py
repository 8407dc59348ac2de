"""FindCoordinator: up to version 3 one key, since version 4 many (KIP-699)."""

from __future__ import annotations

from typing import Any

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from catchment.protocol.adapters.conversion import lift

_LAST_VERSION_WITH_ONE_KEY = 3


def lift_request(request: Any, newest_class: type[FindCoordinatorRequest]) -> Any:
    if request.__version__ > _LAST_VERSION_WITH_ONE_KEY:
        return lift(request, newest_class)
    return lift(request, newest_class, coordinator_keys=(request.key,))


def lower_request(request: FindCoordinatorRequest, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_ONE_KEY:
        return request
    (key,) = request.coordinator_keys
    return lift(request, version_class, key=key)


def lift_response(response: Any, newest_class: type[FindCoordinatorResponse]) -> Any:
    if response.__version__ > _LAST_VERSION_WITH_ONE_KEY:
        return lift(response, newest_class)
    return lift(response, newest_class, coordinators=(lift(response, Coordinator),))


def lower_response(response: FindCoordinatorResponse, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_ONE_KEY:
        return response
    (coordinator,) = response.coordinators
    if version_class.__version__ == 0:
        return lift(coordinator, version_class)
    return lift(coordinator, version_class, throttle_time=response.throttle_time)
