"""ListConfigResources: version 0 was ListClientMetricsResources, which lists nothing else (KIP-1142)."""

from __future__ import annotations

from typing import Any

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.static.primitive import i8

from catchment.protocol.adapters.conversion import lift

CLIENT_METRICS = i8(16)


def lift_request(request: Any, newest_class: type[ListConfigResourcesRequest]) -> Any:
    if request.__version__ == 0:
        return lift(request, newest_class, resource_types=(CLIENT_METRICS,))
    return lift(request, newest_class)
