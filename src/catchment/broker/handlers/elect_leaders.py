"""ElectLeaders (key 43): make the preferred replica the leader again, or any live one where none is in sync.

Behaviour
    A partition that needs no election says so; when all partitions are asked for, those are left out, as in Kafka.
Versions
    0-2. The type of election from 1 on (KIP-460).
Gaps
    A lone broker leads all that it holds, so no election ever takes place: a partition without a leader lives on another broker.
"""

from collections.abc import Iterator

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.cluster.metadata import NO_LEADER
from catchment.protocol.errors import ApiError

_PREFERRED = 0
_UNCLEAN = 1


@api(43, versions=(0, 2))
async def elect_leaders(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        return ElectLeadersResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.invalid_request, replica_election_results=()
        )
    if request.topic_partitions is None:
        results = [result for result in _all(context, request.election_type) if result.partition_result]
    else:
        results = [
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    _result(context, topic.topic, number, request.election_type) for number in topic.partitions
                ),
            )
            for topic in request.topic_partitions
        ]
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, replica_election_results=tuple(results)
    )


def _all(context: RequestContext, election_type: int) -> Iterator[ReplicaElectionResult]:
    for topic in context.image.topics.values():
        results = [_result(context, topic.name, state.partition, election_type) for state in topic.partitions]
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
    state = context.image.partition(topic, number)
    if state is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"There is no partition {topic}-{number}.")
    if state.leader == NO_LEADER:
        raise ApiError(
            ErrorCode.preferred_leader_not_available
            if election_type == _PREFERRED
            else ErrorCode.eligible_leaders_not_available,
            f"No replica of {topic}-{number} is on a registered broker.",
        )
    raise ApiError(
        ErrorCode.election_not_needed, f"Leader election not needed: {topic}-{number} is led by {state.leader}."
    )
