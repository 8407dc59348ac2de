"""ReadShareGroupState (key 84): the share state of partitions, for their new leader (KIP-932).

Behaviour
    A leader epoch above the current one is stored, and the response is sent once that is durable: from then on no older leader can
    write. A lower epoch gets FENCED_LEADER_EPOCH. A partition without an initialized state gets INVALID_REQUEST.
Versions
    0.
Gaps
    None.
"""

from functools import partial
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.read_share_group_state.v0.request import PartitionData, ReadShareGroupStateRequest
from kio.schema.read_share_group_state.v0.response import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from kio.static.primitive import i8, i16, i32, i64

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.state_requests import by_topic
from catchment.protocol.errors import ApiError


@api(84, versions=(0, 0))
async def read_share_group_state(
    context: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    topics = await by_topic(request, partial(_read, context, request.group_id))
    return ReadShareGroupStateResponse(
        results=tuple(ReadStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics)
    )


async def _read(context: RequestContext, group_id: str, topic_id: UUID, asked: PartitionData) -> PartitionResult:
    try:
        state = await context.services.share_state.read(group_id, topic_id, asked.partition, asked.leader_epoch)
    except ApiError as error:
        return PartitionResult(
            partition=asked.partition,
            error_code=error.code,
            error_message=error.message,
            state_epoch=i32(0),
            start_offset=i64(0),
            state_batches=(),
        )
    return PartitionResult(
        partition=asked.partition,
        error_code=ErrorCode.none,
        error_message=None,
        state_epoch=i32(state.state_epoch),
        start_offset=i64(state.start_offset),
        state_batches=tuple(
            StateBatch(
                first_offset=i64(batch.first_offset),
                last_offset=i64(batch.last_offset),
                delivery_state=i8(batch.delivery_state),
                delivery_count=i16(batch.delivery_count),
            )
            for batch in state.batches
        ),
    )
