"""WriteShareGroupState (key 85): write delivery states of records to the share state of partitions (KIP-932).

Behaviour
    Only the newest leader of the partition may write (FENCED_LEADER_EPOCH), and only with the current state epoch
    (FENCED_STATE_EPOCH). Where batches overlap, the one with the higher delivery count applies. A start offset drops everything
    before it; -1 leaves it unchanged. A partition without an initialized state gets INVALID_REQUEST, and so do offsets out of
    order.
Versions
    0-1. The number of completed deliveries since 1 (KIP-1226).
Gaps
    None.
"""

from functools import partial
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.write_share_group_state.v1.request import PartitionData, WriteShareGroupStateRequest
from kio.schema.write_share_group_state.v1.response import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.state_requests import by_topic
from catchment.coordination.share_state.batches import StateBatch
from catchment.protocol.errors import ApiError


@api(85, versions=(0, 1))
async def write_share_group_state(
    context: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    topics = await by_topic(request, partial(_write, context, request.group_id))
    return WriteShareGroupStateResponse(
        results=tuple(WriteStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics)
    )


async def _write(context: RequestContext, group_id: str, topic_id: UUID, asked: PartitionData) -> PartitionResult:
    try:
        await context.services.share_state.write(
            group_id,
            topic_id,
            asked.partition,
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            [
                StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in asked.state_batches
            ],
            asked.delivery_complete_count,
        )
    except ApiError as error:
        return PartitionResult(partition=asked.partition, error_code=error.code, error_message=error.message)
    return PartitionResult(partition=asked.partition, error_code=ErrorCode.none, error_message=None)
