"""DeleteRecords (key 21): advance a partition's log start offset.

Behaviour
    Offset -1 means the high watermark. The response is sent once the new log start offset is durable: a restart must not bring
    records back. An offset below the log start changes nothing. Topics without `delete` in their cleanup policy get
    POLICY_VIOLATION, internal topics INVALID_TOPIC_EXCEPTION.
Versions
    0-2. Version 2 is the first flexible one.
Gaps
    `timeout` is ignored: there are no followers to wait for.
"""

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.cluster.metadata import INTERNAL_TOPICS
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition

_UP_TO_HIGH_WATERMARK = -1
_NO_OFFSET = -1

_Outcome = int | ApiError
"""The new log start offset of a partition, or the error."""


@api(21, versions=(0, 2))
async def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    turns = Turns()
    outcomes = [
        [_delete(context, topic.name, asked) async for asked in turns(topic.partitions)]
        async for topic in turns(request.topics)
    ]
    failure = None
    if any(isinstance(outcome, int) for topic_outcomes in outcomes for outcome in topic_outcomes):
        failure = await _make_durable(context)
    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                await _topic(topic, topic_outcomes, failure, turns)
                async for topic, topic_outcomes in turns(zip(request.topics, outcomes, strict=True))
            ]
        ),
    )


def _delete(context: RequestContext, topic: str, asked: DeleteRecordsPartition) -> _Outcome:
    try:
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.invalid_topic_exception, f"Cannot delete records of internal topic {topic}.")
        partition = context.services.replicas.find(topic, asked.partition_index)
        if not partition.log.config.is_deleted:
            raise ApiError(
                ErrorCode.policy_violation,
                f"Records of partition {topic}-{asked.partition_index} cannot be deleted: its cleanup.policy lacks 'delete'.",
            )
        return _advance(partition, asked.offset)
    except ApiError as error:
        return error


def _advance(partition: Partition, asked_offset: int) -> int:
    offset = partition.high_watermark if asked_offset == _UP_TO_HIGH_WATERMARK else asked_offset
    if not 0 <= offset <= partition.high_watermark:
        raise ApiError(
            ErrorCode.offset_out_of_range,
            f"The offset {offset} is not between 0 and the high watermark {partition.high_watermark}.",
        )
    if offset > partition.log.log_start_offset:
        partition.log.advance_log_start(offset)
    return partition.log.log_start_offset


async def _make_durable(context: RequestContext) -> ApiError | None:
    """Checkpoint the log start offsets, once for the whole request."""
    try:
        await context.services.replicas.checkpoint_log_starts()
    except OSError as error:
        return ApiError(ErrorCode.kafka_storage_error, f"Could not write the new log start offset: {error}")
    return None


async def _topic(
    topic: DeleteRecordsTopic, outcomes: list[_Outcome], failure: ApiError | None, turns: Turns
) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=tuple(
            [
                _partition(asked, failure if failure is not None and isinstance(outcome, int) else outcome)
                async for asked, outcome in turns(zip(topic.partitions, outcomes, strict=True))
            ]
        ),
    )


def _partition(asked: DeleteRecordsPartition, outcome: _Outcome) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index,
        low_watermark=i64(_NO_OFFSET if isinstance(outcome, ApiError) else outcome),
        error_code=outcome.code if isinstance(outcome, ApiError) else ErrorCode.none,
    )
