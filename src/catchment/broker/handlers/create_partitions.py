"""CreatePartitions (key 37): add partitions to topics. Partitions cannot be removed.

Behaviour
    The count is the new total. New partitions are assigned as for a new topic, or by a manual assignment of the new ones alone.
    They are durable and online when the response is sent. Each counts towards the client's `controller_mutation_rate`. Beyond it,
    requests are rejected since version 3, and clients of older versions are only throttled (KIP-599).
Versions
    0-3. Version 2 is the first flexible one.
Gaps
    `timeout` is ignored: the response is sent when the change is durable.
"""

from collections import Counter

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import MAX_CONCURRENT_CHANGES, gather_in_turns
from catchment.protocol.errors import ApiError

_FIRST_VERSION_WITH_QUOTA_ERROR = 3


@api(37, versions=(0, 3))
async def create_partitions(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    named = Counter(topic.name for topic in request.topics)
    once = {topic.name: topic for topic in request.topics}
    results = await gather_in_turns(
        (
            _grow(context, topic, is_duplicate=named[name] > 1, validate_only=request.validate_only)
            for name, topic in once.items()
        ),
        MAX_CONCURRENT_CHANGES,
    )
    return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


async def _grow(
    context: RequestContext, asked: CreatePartitionsTopic, *, is_duplicate: bool, validate_only: bool
) -> CreatePartitionsTopicResult:
    code, message = ErrorCode.none, None
    try:
        if is_duplicate:
            raise ApiError(ErrorCode.invalid_request, f"Duplicate topic name: the request has '{asked.name}' twice.")
        assignments = None
        if asked.assignments is not None:
            assignments = [tuple(assignment.broker_ids) for assignment in asked.assignments]
        controller = context.services.controller
        if context.meter is not None:
            planned = await controller.create_partitions(asked.name, asked.count, assignments, validate_only=True)
            count = len(planned.partitions) - len(context.image.topics[asked.name].partitions)
            context.meter.mutate(count, strict=context.header.api_version >= _FIRST_VERSION_WITH_QUOTA_ERROR)
        await controller.create_partitions(asked.name, asked.count, assignments, validate_only=validate_only)
    except ApiError as error:
        code, message = error.code, error.message
    return CreatePartitionsTopicResult(name=asked.name, error_code=code, error_message=message)
