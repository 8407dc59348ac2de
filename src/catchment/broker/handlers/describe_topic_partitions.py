"""DescribeTopicPartitions (key 75): the partitions of topics, page by page (KIP-966).

Behaviour
    Topics are sorted by name; a request without topics means all. A page ends after as many partitions as the client or
    `max.request.partition.size.limit` allows, with a cursor to the next page. Partitions before the cursor of a request are left
    out.
Versions
    0.
Gaps
    No eligible leader replicas: a leader is elected from the ISR only.
"""

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from catchment.broker.admin.authorized_operations import ON_TOPIC
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.cluster.metadata import NO_LEADER, PartitionImage
from catchment.cluster.new_topic import check_topic_name
from catchment.protocol.errors import ApiError


@api(75, versions=(0, 0))
async def describe_topic_partitions(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} or context.image.topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        if cursor.partition_index < 0:
            topics = tuple([_failed(name, ErrorCode.invalid_request) async for name in Turns()(names)])
            return DescribeTopicPartitionsResponse(throttle_time=NO_THROTTLE, topics=topics)
    first_partition = cursor.partition_index if cursor is not None and names[:1] == [cursor.topic_name] else 0
    return await _page(context, names, first_partition, _limit(context, request))


def _limit(context: RequestContext, request: DescribeTopicPartitionsRequest) -> int:
    allowed = context.services.settings.integer("max.request.partition.size.limit")
    return max(1, min(allowed, request.response_partition_limit))


async def _page(
    context: RequestContext, names: list[str], first_partition: int, limit: int
) -> DescribeTopicPartitionsResponse:
    topics = []
    next_cursor = None
    turns = Turns()
    async for name in turns(names):
        if limit <= 0:
            next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(0))
            break
        topic = await _topic(context, name, first_partition, limit, turns)
        topics.append(topic)
        limit -= len(topic.partitions)
        end = first_partition + len(topic.partitions)
        if topic.error_code is ErrorCode.none and end < len(context.image.topics[name].partitions):
            next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(end))
            break
        first_partition = 0
    return DescribeTopicPartitionsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=next_cursor)


async def _topic(
    context: RequestContext, name: str, first_partition: int, limit: int, turns: Turns
) -> DescribeTopicPartitionsResponseTopic:
    topic = context.image.topics.get(name)
    if topic is None:
        try:
            check_topic_name(name)
        except ApiError as error:
            return _failed(name, error.code)
        return _failed(name, ErrorCode.unknown_topic_or_partition)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(name),
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple(
            [_partition(state) async for state in turns(topic.partitions[first_partition : first_partition + limit])]
        ),
        topic_authorized_operations=ON_TOPIC,
    )


def _failed(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=TopicName(name), topic_id=None, partitions=())


def _partition(state: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.leader_not_available if state.leader == NO_LEADER else ErrorCode.none,
        partition_index=i32(state.partition),
        leader_id=BrokerId(state.leader),
        leader_epoch=i32(state.leader_epoch),
        replica_nodes=tuple(BrokerId(replica) for replica in state.replicas),
        isr_nodes=tuple(BrokerId(replica) for replica in state.isr),
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=(),
    )
