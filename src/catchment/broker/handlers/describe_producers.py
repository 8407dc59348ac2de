"""DescribeProducers (key 61): the producer state of partitions, with open transactions (KIP-664).

Behaviour
    Each producer is returned with its epoch, its last sequence and timestamp, the epoch of the coordinator that ended its last
    transaction, and the first offset of its open transaction; -1 where there is none.
Versions
    0.
Gaps
    None.
"""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName
from kio.static.primitive import i32, i64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError
from catchment.storage.producers.state import ProducerEntry

_NONE = -1


@api(61, versions=(0, 0))
async def describe_producers(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    turns = Turns()
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                TopicResponse(
                    name=name,
                    partitions=tuple(
                        [await _partition(context, name, number, turns) async for number in turns(numbers)]
                    ),
                )
                async for name, numbers in turns(_unique_partitions(request).items())
            ]
        ),
    )


def _unique_partitions(request: DescribeProducersRequest) -> dict[TopicName, dict[i32, None]]:
    """The partitions without duplicates: a partition may have many producers, so it is described once."""
    asked: dict[TopicName, dict[i32, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return asked


async def _partition(context: RequestContext, name: str, number: i32, turns: Turns) -> PartitionResponse:
    try:
        producers = context.services.replicas.find(name, number).log.producers
    except ApiError as error:
        return PartitionResponse(
            partition_index=number, error_code=error.code, error_message=error.message, active_producers=()
        )
    return PartitionResponse(
        partition_index=number,
        error_code=ErrorCode.none,
        error_message=None,
        active_producers=tuple([_producer(entry) async for entry in turns(list(producers))]),
    )


def _producer(entry: ProducerEntry) -> ProducerState:
    first_offset = entry.transaction_first_offset
    return ProducerState(
        producer_id=ProducerId(entry.producer_id),
        producer_epoch=i32(entry.epoch),
        last_sequence=i32(entry.last_sequence),
        last_timestamp=i64(entry.last_timestamp_ms),
        coordinator_epoch=i32(entry.coordinator_epoch),
        current_txn_start_offset=i64(_NONE if first_offset is None else first_offset),
    )
