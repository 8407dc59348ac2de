"""WriteTxnMarkers (key 27): end a transaction on partitions that this broker leads.

Behaviour
    Transaction coordinators of other brokers ask for it, and `kafka-transactions abort`, which ends a transaction that its
    own coordinator has forgotten. Each partition answers once its marker is safe. A marker that is older than what the
    partition knows of the producer gets INVALID_PRODUCER_EPOCH, one of a deposed coordinator TRANSACTION_COORDINATOR_FENCED.
Versions
    1-2. Version 2 tells the transaction version: from transactions v2 on, a marker's epoch must be above that of the records.
Gaps
    None.
"""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.broker.transaction_markers import AppendedMarkers, MarkerToWrite
from catchment.coordination.offsets import TopicPartition


@api(27, versions=(1, 2))
async def write_txn_markers(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    # All markers are appended before the first is waited for: one sync serves them all.
    appended = [(marker, _append(context, marker)) for marker in request.markers]
    return WriteTxnMarkersResponse(
        markers=tuple([_result(marker, await markers.outcomes()) for marker, markers in appended])
    )


def _append(context: RequestContext, asked: WritableTxnMarker) -> AppendedMarkers:
    marker = MarkerToWrite(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
    partitions = [(topic.name, number) for topic in asked.topics for number in topic.partition_indexes]
    return AppendedMarkers(context.services.replicas, context.services.groups, marker, partitions)


def _result(asked: WritableTxnMarker, outcomes: Mapping[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=outcomes[topic.name, number])
                    for number in topic.partition_indexes
                ),
            )
            for topic in asked.topics
        ),
    )
