"""DescribeQuorum (key 55): the voters of the cluster metadata, and their log end offsets (KIP-595).

Behaviour
    The controller is the only voter of partition 0 of `__cluster_metadata`. The leader epoch is the controller's; the log end
    offset is the version of the metadata image. As in Kafka, a request must name exactly this partition: any other gets
    UNKNOWN_TOPIC_OR_PARTITION.
Versions
    0-2. Timestamps since 1 (KIP-836). Node addresses, directories and messages since 2 (KIP-853).
Gaps
    There is no Raft quorum. The log end offset restarts with every controller epoch.
"""

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64, u16

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns

_METADATA = [("__cluster_metadata", [0])]


@api(55, versions=(0, 2))
async def describe_quorum(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    asked = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics]
    is_metadata = asked == _METADATA
    turns = Turns()
    return DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message="",
        topics=tuple(
            [
                TopicData(
                    topic_name=topic.topic_name,
                    partitions=tuple(
                        [
                            _quorum(context) if is_metadata else _unknown(one.partition_index)
                            async for one in turns(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns(request.topics)
            ]
        ),
        nodes=_nodes(context) if is_metadata else (),
    )


def _unknown(number: i32) -> PartitionData:
    return PartitionData(
        partition_index=number,
        error_code=ErrorCode.unknown_topic_or_partition,
        error_message="This server does not host this topic-partition.",
        leader_id=BrokerId(0),
        leader_epoch=i32(0),
        high_watermark=i64(0),
        current_voters=(),
        observers=(),
    )


def _quorum(context: RequestContext) -> PartitionData:
    image, now_ms = context.image, i64(context.services.clock.now_ms())
    end = i64(image.version)
    voter = ReplicaState(
        replica_id=BrokerId(image.controller_id),
        replica_directory_id=None,
        log_end_offset=end,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        error_message="",
        leader_id=BrokerId(image.controller_id),
        leader_epoch=i32(context.services.controller.epoch),
        high_watermark=end,
        current_voters=(voter,),
        observers=(),
    )


def _nodes(context: RequestContext) -> tuple[Node, ...]:
    controller = context.image.brokers.get(context.image.controller_id)
    endpoint = None if controller is None else controller.endpoints.get(context.listener_name)
    if controller is None or endpoint is None:
        return ()
    listener = Listener(name=context.listener_name, host=endpoint.host, port=u16(endpoint.port))
    return (Node(node_id=BrokerId(controller.id), listeners=(listener,)),)
