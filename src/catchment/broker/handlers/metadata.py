"""Metadata (key 3): the brokers, topics and partition leaders.

Behaviour
    Topics are requested by name, by id, or all at once. An unknown name is created if the client and
    `auto.create.topics.enable` allow it, and the response has the complete topic. Addresses are those of the listener that
    received the request.
Versions
    0-13. Version 0 requests all topics with an empty list, later versions with null. Ids in the response since 10, in the
    request since 12.
Gaps
    Authorized operations are not computed.
"""

from collections.abc import Iterator
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.cluster.metadata import INTERNAL_TOPICS, NO_LEADER, PartitionImage, TopicImage
from catchment.cluster.new_topic import NewTopic, check_topic_name
from catchment.protocol.errors import ApiError

_FIRST_WITH_IDS = 12


@api(3, versions=(0, 13))
async def metadata(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    turns = Turns()
    if request.topics is None:
        topics = [await _described(topic, turns) async for topic in turns(context.image.topics.values())]
    else:
        # As in Kafka, a duplicate is answered once.
        once = {(asked.name, asked.topic_id): asked for asked in request.topics}
        may_create = request.allow_auto_topic_creation
        topics = [await _topic(context, asked, turns, may_create=may_create) async for asked in turns(once.values())]
    image = context.image
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=tuple(_brokers(context)),
        cluster_id=image.cluster_id,
        controller_id=BrokerId(image.controller_id),
        topics=tuple(topics),
        error_code=ErrorCode.none,
    )


def _brokers(context: RequestContext) -> Iterator[MetadataResponseBroker]:
    for broker in context.image.brokers.values():
        endpoint = broker.endpoints.get(context.listener_name)
        if endpoint is not None:
            yield MetadataResponseBroker(
                node_id=BrokerId(broker.id), host=endpoint.host, port=i32(endpoint.port), rack=broker.rack
            )


async def _topic(
    context: RequestContext, asked: MetadataRequestTopic, turns: Turns, *, may_create: bool
) -> MetadataResponseTopic:
    try:
        return await _described(await _find(context, asked, may_create=may_create), turns)
    except ApiError as error:
        return MetadataResponseTopic(
            error_code=error.code, name=asked.name, topic_id=asked.topic_id, is_internal=False, partitions=()
        )


async def _find(context: RequestContext, asked: MetadataRequestTopic, *, may_create: bool) -> TopicImage:
    if asked.name is None:
        if context.header.api_version < _FIRST_WITH_IDS:
            raise ApiError(ErrorCode.invalid_request)
        topic = context.image.topics_by_id.get(asked.topic_id or UUID(int=0))
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_id)
        return topic
    topic = context.image.topics.get(asked.name)
    if topic is not None:
        return topic
    check_topic_name(asked.name)
    settings = context.services.settings
    # Coordinators create internal topics, with settings that keep their records.
    may_create = may_create and asked.name not in INTERNAL_TOPICS
    if not (may_create and settings.boolean("auto.create.topics.enable")):
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    try:
        created = await context.services.controller.create_topic(
            NewTopic(
                asked.name,
                partition_count=settings.integer("num.partitions"),
                replication_factor=settings.integer("default.replication.factor"),
            )
        )
    except ApiError as error:
        if error.code is not ErrorCode.topic_already_exists:
            raise
        # Another client is creating it at this moment; this client retries.
        raise ApiError(ErrorCode.leader_not_available) from error
    if context.meter is not None:
        context.meter.mutate(len(created.partitions), strict=False)
    return created


async def _described(topic: TopicImage, turns: Turns) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple([_partition(state) async for state in turns(topic.partitions)]),
    )


def _partition(state: PartitionImage) -> MetadataResponsePartition:
    has_leader = state.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.none if has_leader else ErrorCode.leader_not_available,
        partition_index=i32(state.partition),
        leader_id=BrokerId(state.leader),
        leader_epoch=i32(state.leader_epoch),
        replica_nodes=tuple(BrokerId(replica) for replica in state.replicas),
        isr_nodes=tuple(BrokerId(replica) for replica in state.isr),
        offline_replicas=(),
    )
