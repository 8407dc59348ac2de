"""ListPartitionReassignments (key 46): the partitions that are being moved (KIP-455).

Behaviour
    Always an empty list: partitions keep their replicas. Unknown topics and partitions are no error, as in Kafka.
Versions
    0.
Gaps
    None: AlterPartitionReassignments moves nothing.
"""

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api


@api(46, versions=(0, 0))
async def list_partition_reassignments(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, topics=()
    )
