"""DeleteTopics (key 20): delete topics by name or id, with all their records.

Behaviour
    The deletion is durable when the response is sent; the files are removed afterwards. With `delete.topic.enable=false` nothing
    is deleted. A topic that appears twice is rejected. Each partition counts towards the client's `controller_mutation_rate`.
    Beyond it, topics are rejected since version 5, and clients of older versions are only throttled (KIP-599).
Versions
    1-6. TOPIC_DELETION_DISABLED since 3, messages since 5, ids since 6 (KIP-516).
Gaps
    `timeout` is ignored: the response is sent when the deletion is durable.
"""

from collections import Counter

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import MAX_CONCURRENT_CHANGES, gather_in_turns
from catchment.cluster.metadata import TopicImage
from catchment.protocol.errors import ApiError

_FIRST_VERSION_WITH_DELETION_DISABLED = 3
_FIRST_VERSION_WITH_QUOTA_ERROR = 5


@api(20, versions=(1, 6))
async def delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    found = [_find(context, asked) for asked in request.topics]
    occurrences = Counter(topic.id for topic in found if topic is not None)
    results = await gather_in_turns(
        (
            _delete(context, asked, topic, is_duplicate=topic is not None and occurrences[topic.id] > 1)
            for asked, topic in zip(request.topics, found, strict=True)
        ),
        MAX_CONCURRENT_CHANGES,
    )
    return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(results))


def _find(context: RequestContext, asked: DeleteTopicState) -> TopicImage | None:
    image = context.image
    if asked.name is not None:
        return image.topics.get(asked.name)
    return None if asked.topic_id is None else image.topics_by_id.get(asked.topic_id)


async def _delete(
    context: RequestContext, asked: DeleteTopicState, topic: TopicImage | None, *, is_duplicate: bool
) -> DeletableTopicResult:
    name, topic_id = asked.name, asked.topic_id
    code, message = ErrorCode.none, None
    try:
        _check(context, asked, is_duplicate=is_duplicate)
        if topic is None:
            raise _unknown(asked)
        name, topic_id = TopicName(topic.name), topic.id
        if context.meter is not None:
            strict = context.header.api_version >= _FIRST_VERSION_WITH_QUOTA_ERROR
            context.meter.mutate(len(topic.partitions), strict=strict)
        await context.services.controller.delete_topic(topic.name)
    except ApiError as error:
        code, message = error.code, error.message
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


def _check(context: RequestContext, asked: DeleteTopicState, *, is_duplicate: bool) -> None:
    if not context.services.settings.boolean("delete.topic.enable"):
        is_known = context.header.api_version >= _FIRST_VERSION_WITH_DELETION_DISABLED
        raise ApiError(
            ErrorCode.topic_deletion_disabled if is_known else ErrorCode.invalid_request,
            "Topic deletion is disabled: this broker has delete.topic.enable=false.",
        )
    if asked.name is not None and asked.topic_id is not None:
        raise ApiError(ErrorCode.invalid_request, "You may not specify both topic name and topic id.")
    if asked.name is None and asked.topic_id is None:
        raise ApiError(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    if is_duplicate:
        raise ApiError(ErrorCode.invalid_request, "The request has the same topic more than once.")


def _unknown(asked: DeleteTopicState) -> ApiError:
    if asked.name is not None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"There is no topic '{asked.name}'.")
    return ApiError(ErrorCode.unknown_topic_id, f"There is no topic with the id {asked.topic_id}.")
