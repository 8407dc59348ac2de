"""AlterPartitionReassignments (key 45): move partitions to other brokers (KIP-455).

Behaviour
    The replicas that a partition already has are accepted: tools send them along with their changes. Unregistered brokers,
    duplicate brokers and an empty list get INVALID_REPLICA_ASSIGNMENT. Null cancels a reassignment; as there is none, it gets
    NO_REASSIGNMENT_IN_PROGRESS. Each partition has its own result.
Versions
    0-1. Whether the replication factor may change since 1 (KIP-860).
Gaps
    Partitions are not moved: any other list of registered brokers gets INVALID_REPLICA_ASSIGNMENT, with a message.
"""

from collections.abc import Mapping, Sequence

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.cluster.metadata import BrokerImage, MetadataImage
from catchment.protocol.errors import ApiError


@api(45, versions=(0, 1))
async def alter_partition_reassignments(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    turns = Turns()
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple([await _topic(context.image, topic, turns) async for topic in turns(request.topics)]),
    )


async def _topic(image: MetadataImage, topic: ReassignableTopic, turns: Turns) -> ReassignableTopicResponse:
    partitions = [_partition(image, topic.name, asked) async for asked in turns(topic.partitions)]
    return ReassignableTopicResponse(name=topic.name, partitions=tuple(partitions))


def _partition(image: MetadataImage, topic: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
    code, message = ErrorCode.none, None
    try:
        _reassign(image, topic, asked.partition_index, asked.replicas)
    except ApiError as error:
        code, message = error.code, error.message
    return ReassignablePartitionResponse(partition_index=asked.partition_index, error_code=code, error_message=message)


def _reassign(image: MetadataImage, topic: str, number: int, replicas: Sequence[int] | None) -> None:
    if topic not in image.topics:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {topic}.")
    state = image.partition(topic, number)
    if state is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"Unable to find partition {topic}:{number}.")
    if replicas is None:
        raise ApiError(ErrorCode.no_reassignment_in_progress)
    _check_replicas(replicas, image.brokers)
    if tuple(replicas) != state.replicas:
        reason = f"Catchment cannot move {topic}-{number} from brokers {list(state.replicas)} to {list(replicas)}."
        raise ApiError(ErrorCode.invalid_replica_assignment, reason)


def _check_replicas(replicas: Sequence[int], brokers: Mapping[int, BrokerImage]) -> None:
    if not replicas:
        reason = "The manual partition assignment includes an empty replica list."
        raise ApiError(ErrorCode.invalid_replica_assignment, reason)
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in brokers:
            reason = f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            raise ApiError(ErrorCode.invalid_replica_assignment, reason)
        if broker_id == previous:
            reason = f"The manual partition assignment includes the broker {broker_id} more than once."
            raise ApiError(ErrorCode.invalid_replica_assignment, reason)
        previous = broker_id
