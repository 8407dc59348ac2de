"""ListConfigResources (key 74): the topics, brokers and other resources that have settings (KIP-1142).

Behaviour
    A request without types means all. A type that Kafka does not have gets UNSUPPORTED_VERSION.
Versions
    0-1. Version 0 was ListClientMetricsResources, and lists client metrics subscriptions alone.
Gaps
    Client metrics subscriptions cannot be created, so none is listed.
"""

from collections.abc import Iterator

from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import ConfigResource, ListConfigResourcesResponse
from kio.static.primitive import i8

from catchment.broker.admin.config_changes import ResourceType
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api


@api(74, versions=(0, 1))
async def list_config_resources(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    asked = {int(resource_type) for resource_type in request.resource_types} or set(map(int, ResourceType))
    if context.header.api_version == 0:
        asked = {ResourceType.CLIENT_METRICS}
    known = asked <= set(map(int, ResourceType))
    return ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none if known else ErrorCode.unsupported_version,
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=i8(resource_type))
            for resource_type, name in _resources(context)
            if known and resource_type in asked
        ),
    )


def _resources(context: RequestContext) -> Iterator[tuple[ResourceType, str]]:
    for broker_id in sorted(context.image.brokers):
        yield ResourceType.BROKER_LOGGER, str(broker_id)
        yield ResourceType.BROKER, str(broker_id)
    for group_id in sorted(context.image.group_settings):
        yield ResourceType.GROUP, group_id
    for topic_name in sorted(context.image.topics):
        yield ResourceType.TOPIC, topic_name
