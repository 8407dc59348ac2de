"""AlterConfigs (key 33): replace all overrides of a topic, broker or group.

Behaviour
    A setting that the request leaves out returns to its default, which is why IncrementalAlterConfigs was added (KIP-339); older
    clients and tools still send this API. Each resource succeeds or fails separately. As in Kafka, logger levels cannot be changed
    with this API.
Versions
    0-2. Version 2 is the first flexible one.
Gaps
    Client metrics subscriptions cannot be created (INVALID_REQUEST).
"""

from collections import Counter

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse
from kio.schema.errors import ErrorCode

from catchment.broker.admin.config_changes import ResourceType, change_resource, check_names_and_values
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError


@api(33, versions=(0, 2))
async def alter_configs(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = [
        await _alter(context, request, resource, is_repeated=named[resource.resource_type, resource.resource_name] > 1)
        async for resource in Turns()(request.resources)
    ]
    return AlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(responses))


async def _alter(
    context: RequestContext, request: AlterConfigsRequest, resource: AlterConfigsResource, *, is_repeated: bool
) -> AlterConfigsResourceResponse:
    code, message = ErrorCode.none, None
    configs = [(config.name, config.value) for config in resource.configs]
    try:
        if is_repeated:
            raise ApiError(ErrorCode.invalid_request, "Each resource must appear at most once.")
        check_names_and_values(configs)
        if int(resource.resource_type) == ResourceType.BROKER_LOGGER:
            raise ApiError(ErrorCode.invalid_request, "Logger levels can only be changed with IncrementalAlterConfigs")
        replacement = {name: value for name, value in configs if value is not None}
        await change_resource(
            context,
            resource.resource_type,
            resource.resource_name,
            lambda _: replacement,
            validate_only=request.validate_only,
        )
    except ApiError as error:
        code, message = error.code, error.message
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
