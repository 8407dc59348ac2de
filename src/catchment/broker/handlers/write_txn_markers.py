"""WriteTxnMarkers (key 27): write the markers that end a transaction to partitions that this broker leads.

Behaviour
    Transaction coordinators of other brokers send it, and so does `kafka-transactions abort`, for a hanging transaction that its
    coordinator no longer has. Each partition has its own result, sent once its marker is durable. A marker with an outdated producer
    epoch gets INVALID_PRODUCER_EPOCH, one with an outdated coordinator epoch TRANSACTION_COORDINATOR_FENCED.
Versions
    1-2. The transaction version since 2: with transactions v2, a marker's epoch must be above that of the records.
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
from catchment.broker.network.routing import api
from catchment.broker.transactions.markers import AppendedMarkers, MarkerToWrite
from catchment.broker.turns import Turns
from catchment.coordination.groups.offsets import TopicPartition


@api(27, versions=(1, 2))
async def write_txn_markers(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    # All markers are appended before the first wait, so that one sync makes them all durable.
    turns = Turns()
    appended = [(marker, await _append(context, marker, turns)) async for marker in turns(request.markers)]
    return WriteTxnMarkersResponse(
        markers=tuple([await _result(marker, await markers.outcomes(), turns) for marker, markers in appended])
    )


async def _append(context: RequestContext, asked: WritableTxnMarker, turns: Turns) -> AppendedMarkers:
    marker = MarkerToWrite(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
    # A duplicate partition gets one marker.
    named = dict.fromkeys((topic.name, number) for topic in asked.topics for number in topic.partition_indexes)
    appended = AppendedMarkers(context.services.replicas, context.services.groups, marker, ())
    async for partition in turns(named):
        appended.append(*partition)
    return appended


async def _result(
    asked: WritableTxnMarker, outcomes: Mapping[TopicPartition, ErrorCode], turns: Turns
) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=tuple(
            [
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        [
                            WritableTxnMarkerPartitionResult(
                                partition_index=number, error_code=outcomes[topic.name, number]
                            )
                            async for number in turns(topic.partition_indexes)
                        ]
                    ),
                )
                async for topic in turns(asked.topics)
            ]
        ),
    )
