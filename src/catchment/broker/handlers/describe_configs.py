"""DescribeConfigs (key 32): the settings of topics, brokers, groups and client metrics, with sources, synonyms and documentation.

Behaviour
    All settings of a topic or group are returned, overridden or not. A broker describes itself and, with an empty name, the dynamic
    default of all brokers. A request without keys returns all settings; unknown keys are no error. A name without a definition is
    returned as sensitive, without a value, as in Kafka. Of a broker's settings, those that Catchment uses and those that were
    configured are returned. Client metrics subscriptions have their defaults.
Versions
    1-4. Types and documentation since 3. Version 4 is the first flexible one.
Gaps
    Settings of Kafka that Catchment ignores are left out unless they were configured.
"""

from collections.abc import Sequence

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from catchment.broker.admin.config_changes import ResourceType, broker_of, check_names_this_broker
from catchment.broker.admin.logger_levels import effective_levels
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.cluster.new_topic import check_topic_name
from catchment.protocol.errors import ApiError
from catchment.settings.descriptions import (
    Description,
    Source,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from catchment.settings.setting import Kind

_TYPES = {
    None: i8(0),
    Kind.BOOLEAN: i8(1),
    Kind.STRING: i8(2),
    Kind.INT: i8(3),
    Kind.SHORT: i8(4),
    Kind.LONG: i8(5),
    Kind.DOUBLE: i8(6),
    Kind.LIST: i8(7),
    Kind.CLASS: i8(8),
    Kind.PASSWORD: i8(9),
}


@api(32, versions=(1, 4))
async def describe_configs(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    turns = Turns()
    # A resource has some seventy settings, so a duplicate with the same keys is described once.
    once = {(one.resource_type, one.resource_name, one.configuration_keys): one for one in request.resources}
    results = [await _result(context, request, resource, turns) async for resource in turns(once.values())]
    return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


async def _result(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource, turns: Turns
) -> DescribeConfigsResult:
    code, message = ErrorCode.none, ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()
    keys = frozenset(resource.configuration_keys or ())
    try:
        configs = tuple(
            [
                _config(description, request)
                async for description in turns(_descriptions(context, resource))
                if not keys or description.name in keys
            ]
        )
    except ApiError as error:
        code, message = error.code, error.message or ""
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _descriptions(context: RequestContext, resource: DescribeConfigsResource) -> Sequence[Description]:
    settings, resource_type = context.services.settings, int(resource.resource_type)
    if resource_type == ResourceType.TOPIC:
        check_topic_name(resource.resource_name)
        topic = context.image.topics.get(resource.resource_name)
        if topic is None:
            reason = f"The topic '{resource.resource_name}' does not exist."
            raise ApiError(ErrorCode.unknown_topic_or_partition, reason)
        return describe_topic(settings, topic.settings)
    if resource_type == ResourceType.BROKER:
        if broker_of(context, resource.resource_name) is None:
            return describe_all_brokers(settings)
        return describe_broker(settings)
    if resource_type == ResourceType.BROKER_LOGGER:
        check_names_this_broker(context, resource.resource_name)
        return [
            Description(name, level, Source.LOGGER, False, False, None, "", ())
            for name, level in effective_levels().items()
        ]
    if resource_type == ResourceType.GROUP:
        if not resource.resource_name:
            raise ApiError(ErrorCode.invalid_request, "Group name must not be empty")
        return describe_group(settings, context.image.group_settings.get(resource.resource_name, {}))
    if resource_type == ResourceType.CLIENT_METRICS:
        if not resource.resource_name:
            raise ApiError(ErrorCode.invalid_request, "Client metrics subscription name must not be empty")
        return describe_client_metrics()
    raise ApiError(ErrorCode.invalid_request, f"Settings of the resource type {resource_type} cannot be described here")


def _config(description: Description, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=description.name,
        value=description.text,
        read_only=description.is_read_only,
        config_source=i8(description.source),
        is_sensitive=description.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.text, source=i8(synonym.source))
            for synonym in (description.synonyms if request.include_synonyms else ())
        ),
        config_type=_TYPES[description.kind],
        documentation=description.documentation if request.include_documentation else None,
    )
