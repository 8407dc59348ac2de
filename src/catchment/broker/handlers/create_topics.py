"""CreateTopics (key 19): create topics, by number of partitions or by a manual assignment of replicas.

Behaviour
    A topic is durable, and online for Produce and Fetch, when the response is sent. A count of -1 means the broker's default
    (KIP-464). The topics of one request share a sync. A name that appears twice is rejected. The response has every setting of the
    new topic (KIP-525), also with `validate_only`. Each partition counts towards the client's `controller_mutation_rate`. Beyond
    it, topics are rejected since version 6, and clients of older versions are only throttled (KIP-599).
Versions
    2-7. Settings in the response since 5, the topic id since 7.
Gaps
    `timeout` is ignored: the response is sent when the topics are durable.
"""

from collections import Counter

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import MAX_CONCURRENT_CHANGES, gather_in_turns
from catchment.cluster.metadata import TopicImage
from catchment.cluster.new_topic import MAX_NEW_PARTITIONS, NewTopic
from catchment.protocol.errors import ApiError
from catchment.settings.descriptions import describe_topic

_DEFAULT = -1
_CLUSTER_METADATA_TOPIC = "__cluster_metadata"
_FIRST_VERSION_WITH_QUOTA_ERROR = 6


@api(19, versions=(2, 7))
async def create_topics(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    named = Counter(topic.name for topic in request.topics)
    too_many = sum(max(_partition_count(context, topic), 0) for topic in request.topics) > MAX_NEW_PARTITIONS
    once = {topic.name: topic for topic in request.topics}
    results = await gather_in_turns(
        (
            _create(
                context,
                topic,
                is_duplicate=named[name] > 1,
                too_many=too_many,
                validate_only=request.validate_only,
            )
            for name, topic in once.items()
        ),
        MAX_CONCURRENT_CHANGES,
    )
    return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(results))


async def _create(
    context: RequestContext, asked: CreatableTopic, *, is_duplicate: bool, too_many: bool, validate_only: bool
) -> CreatableTopicResult:
    try:
        if is_duplicate:
            raise ApiError(ErrorCode.invalid_request, f"Duplicate topic name: the request has '{asked.name}' twice.")
        if too_many:
            raise ApiError(
                ErrorCode.policy_violation,
                f"Excessively large number of partitions per request, at most {MAX_NEW_PARTITIONS} are allowed.",
            )
        new = _new_topic(context, asked)
        if context.meter is not None:
            planned = await context.services.controller.create_topic(new, validate_only=True)
            strict = context.header.api_version >= _FIRST_VERSION_WITH_QUOTA_ERROR
            context.meter.mutate(len(planned.partitions), strict=strict)
        topic = await context.services.controller.create_topic(new, validate_only=validate_only)
    except ApiError as error:
        return CreatableTopicResult(
            name=asked.name, topic_id=None, error_code=error.code, error_message=error.message, configs=None
        )
    return _created(context, asked, topic)


def _partition_count(context: RequestContext, asked: CreatableTopic) -> int:
    if asked.assignments:
        return len(asked.assignments)
    return (
        context.services.settings.integer("num.partitions")
        if asked.num_partitions == _DEFAULT
        else asked.num_partitions
    )


def _new_topic(context: RequestContext, asked: CreatableTopic) -> NewTopic:
    if asked.name == _CLUSTER_METADATA_TOPIC:
        raise ApiError(
            ErrorCode.invalid_request, f"Creation of internal topic {_CLUSTER_METADATA_TOPIC} is prohibited."
        )
    settings = {config.name: config.value for config in asked.configs if config.value is not None}
    if len(settings) < len(asked.configs):
        raise ApiError(
            ErrorCode.invalid_config, f"A setting of topic '{asked.name}' has no value, or the request has it twice."
        )
    if asked.assignments:
        return NewTopic(asked.name, assignments=_assignments(asked), settings=settings)
    replication_factor = (
        context.services.settings.integer("default.replication.factor")
        if asked.replication_factor == _DEFAULT
        else asked.replication_factor
    )
    return NewTopic(asked.name, _partition_count(context, asked), replication_factor, settings=settings)


def _assignments(asked: CreatableTopic) -> dict[int, tuple[int, ...]]:
    for given, what in ((asked.num_partitions, "numPartitions"), (asked.replication_factor, "replication factor")):
        if given != _DEFAULT:
            raise ApiError(
                ErrorCode.invalid_request,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    assignments: dict[int, tuple[int, ...]] = {}
    for assignment in asked.assignments:
        if assignment.partition_index in assignments:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        assignments[assignment.partition_index] = tuple(assignment.broker_ids)
    return assignments


def _created(context: RequestContext, asked: CreatableTopic, topic: TopicImage) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=asked.name,
        topic_id=topic.id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=i32(len(topic.partitions)),
        replication_factor=i16(len(topic.partitions[0].replicas)),
        configs=tuple(
            CreatableTopicConfigs(
                name=description.name,
                value=description.text,
                read_only=description.is_read_only,
                config_source=i8(description.source),
                is_sensitive=description.is_sensitive,
            )
            for description in describe_topic(context.services.settings, topic.settings)
        ),
    )
