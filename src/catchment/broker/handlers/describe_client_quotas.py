"""DescribeClientQuotas (key 48): the quotas of users, client ids and addresses that a filter matches (KIP-546).

Behaviour
    Each component of the filter matches a name, the default, or any entity of its type; an entity must match all components. A
    strict filter excludes entities with other parts than the filter has; without components it matches nothing. The response has
    the configured quotas, not the one that applies to a client, which is the most specific of them.
Versions
    0-1. Version 1 is the first flexible one.
Gaps
    None known.
"""

from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.quotas.alterations import named_parts
from catchment.broker.quotas.filters import matches, parse_components
from catchment.protocol.errors import ApiError


@api(48, versions=(0, 1))
async def describe_client_quotas(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        components = parse_components(
            (component.entity_type, component.match_type, component.match) for component in request.components
        )
    except ApiError as error:
        return DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message, entries=None
        )
    entries = [
        EntryData(
            entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in named_parts(entity)),
            values=tuple(ValueData(key=key, value=f64(float(value))) for key, value in sorted(quotas.items())),
        )
        for entity, quotas in context.image.client_quotas.items()
        if matches(entity, components, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, entries=tuple(entries)
    )
