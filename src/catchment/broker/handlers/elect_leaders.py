"""ElectLeaders (key 43): elect the preferred replica, or with an unclean election any live one, as the leader.

Behaviour
    A partition that needs no election gets ELECTION_NOT_NEEDED. A request for all partitions returns every topic, without the
    partitions that need no election, as in Kafka.
Versions
    0-2. The type of election since 1 (KIP-460).
Gaps
    A single broker leads every partition that it holds, so no election takes place: a partition without a leader belongs to
    another broker.
"""

from collections.abc import AsyncIterator

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.cluster.metadata import NO_LEADER
from catchment.protocol.errors import ApiError

_PREFERRED = 0
_UNCLEAN = 1


@api(43, versions=(0, 2))
async def elect_leaders(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    is_known = request.election_type in (_PREFERRED, _UNCLEAN)
    turns, election_type = Turns(), request.election_type
    if request.topic_partitions is None:
        results = [result async for result in _all(context, election_type, turns)] if is_known else []
    else:
        results = [
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    [_result(context, topic.topic, number, election_type) async for number in turns(topic.partitions)]
                ),
            )
            async for topic in turns(request.topic_partitions)
        ]
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none if is_known or request.topic_partitions == () else ErrorCode.invalid_request,
        replica_election_results=tuple(results),
    )


async def _all(context: RequestContext, election_type: int, turns: Turns) -> AsyncIterator[ReplicaElectionResult]:
    async for topic in turns(context.image.topics.values()):
        results = [
            _result(context, topic.name, state.partition, election_type) async for state in turns(topic.partitions)
        ]
        yield ReplicaElectionResult(
            topic=TopicName(topic.name),
            partition_result=tuple(
                result for result in results if result.error_code is not ErrorCode.election_not_needed
            ),
        )


def _result(context: RequestContext, topic: str, number: int, election_type: int) -> PartitionResult:
    try:
        _elect(context, topic, number, election_type)
    except ApiError as error:
        return PartitionResult(partition_id=i32(number), error_code=error.code, error_message=error.message)
    return PartitionResult(partition_id=i32(number), error_code=ErrorCode.none, error_message=None)


def _elect(context: RequestContext, topic: str, number: int, election_type: int) -> None:
    if election_type not in (_PREFERRED, _UNCLEAN):
        raise ApiError(ErrorCode.invalid_request, f"Unknown election type {election_type}")
    if topic not in context.image.topics:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"No such topic as {topic}")
    state = context.image.partition(topic, number)
    if state is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"No such partition as {topic}-{number}")
    if state.leader == NO_LEADER:
        raise ApiError(
            ErrorCode.preferred_leader_not_available
            if election_type == _PREFERRED
            else ErrorCode.eligible_leaders_not_available,
            f"No replica of {topic}-{number} is on a registered broker.",
        )
    raise ApiError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
