"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from settings of a topic, broker or group (KIP-339).

Behaviour
    APPEND and SUBTRACT apply to lists; without an override they start from the default, and APPEND adds no duplicate. Each resource
    succeeds or fails as a whole. Settings of a broker take effect at once, and so do the levels of its loggers (KIP-412), until the
    process ends.
Versions
    0-1. Version 1 is the first flexible one.
Gaps
    Client metrics subscriptions cannot be created (INVALID_REQUEST). Deleting a setting without an override is no error.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from catchment.broker.admin.config_changes import ResourceType, change_resource, check_names_and_values
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError
from catchment.settings.broker import BrokerSettings
from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.topics import TOPIC_SETTINGS
from catchment.settings.groups import GROUP_SETTINGS
from catchment.settings.setting import Kind, Value

_DEFINITIONS = {int(ResourceType.TOPIC): TOPIC_SETTINGS, int(ResourceType.GROUP): GROUP_SETTINGS}


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@api(44, versions=(0, 1))
async def incremental_alter_configs(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = [
        await _alter(context, request, resource, is_repeated=named[resource.resource_type, resource.resource_name] > 1)
        async for resource in Turns()(request.resources)
    ]
    return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(responses))


async def _alter(
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
    resource: AlterConfigsResource,
    *,
    is_repeated: bool,
) -> AlterConfigsResourceResponse:
    code, message = ErrorCode.none, None
    try:
        if is_repeated:
            raise ApiError(ErrorCode.invalid_request, "Each resource must appear at most once.")
        check_names_and_values(
            [
                (config.name, "" if int(config.config_operation) == Operation.DELETE else config.value)
                for config in resource.configs
            ]
        )
        await change_resource(
            context,
            resource.resource_type,
            resource.resource_name,
            lambda current: _changed(current, resource, context.services.settings),
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


def _changed(current: Mapping[str, str], resource: AlterConfigsResource, settings: BrokerSettings) -> Mapping[str, str]:
    changed = dict(current)
    for config in resource.configs:
        name, value = config.name, config.value or ""
        try:
            operation = Operation(config.config_operation)
        except ValueError:
            reason = f"Unknown operation type {config.config_operation} for {name}"
            raise ApiError(ErrorCode.invalid_request, reason) from None
        if operation is Operation.SET:
            changed[name] = value
        elif operation is Operation.DELETE:
            changed.pop(name, None)
        else:
            members = _members(name, current.get(name), operation, int(resource.resource_type), settings)
            changed[name] = ",".join(_combined(members, operation, value))
    return changed


def _members(
    name: str, override: str | None, operation: Operation, resource_type: int, settings: BrokerSettings
) -> Sequence[str]:
    """The current members of a list."""
    setting = _DEFINITIONS.get(resource_type, BROKER_SETTINGS).get(name)
    if setting is None or setting.kind is not Kind.LIST:
        reason = f"Can't {operation.name} to key {name} because its type is not LIST."
        raise ApiError(ErrorCode.invalid_config, reason)
    value: Value
    if override is not None:
        value = setting.parse(override)
    elif resource_type == ResourceType.TOPIC:
        value = settings.topic_values()[name]
    else:
        value = settings.stated(name)
    return value if isinstance(value, tuple) else ()


def _combined(members: Sequence[str], operation: Operation, text: str) -> Sequence[str]:
    operands = [part.strip() for part in text.split(",") if part.strip()]
    if operation is Operation.APPEND:
        return list(dict.fromkeys([*members, *operands]))
    return [member for member in members if member not in operands]
