"""One partition's part of a Produce request: checked, appended, and how far it has come."""

import asyncio
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.context import RequestContext
from catchment.cluster.metadata import INTERNAL_TOPICS
from catchment.protocol.batch import HEADER_SIZE, MAGIC, TRANSACTIONAL_MASK
from catchment.protocol.errors import ApiError
from catchment.protocol.produce import PartitionData, ProduceRequest, TopicKey
from catchment.replication.partition import Partition
from catchment.storage.log_parts import AppendInfo

ALL = -1
_ADMIN_CLIENT_ID = "__admin_client"
"""By this name Kafka's own tools are told from other clients."""
_ACKS = (ALL, 0, 1)
_MAGIC_POSITION = 16
_LOW_ATTRIBUTES_POSITION = 22


class Appended(NamedTuple):
    info: AppendInfo
    safe: "asyncio.Future[None] | None"
    """Done once the batch cannot be lost; None where nobody waits for that, or it is so already."""


Outcome = Appended | ApiError


def append(context: RequestContext, request: ProduceRequest, topic: TopicKey, data: PartitionData) -> Outcome:
    """Append a batch that belongs to no transaction."""
    try:
        partition, records = find(context, request, topic, data)
        if is_transactional(records):
            raise ApiError(
                ErrorCode.transactional_id_authorization_failed,
                "a transactional batch came in a request without a transactional id",
            )
        return append_to(context, request, partition, records)
    except ApiError as error:
        return error


def find(
    context: RequestContext, request: ProduceRequest, topic: TopicKey, data: PartitionData
) -> tuple[Partition, memoryview]:
    """Where to append and what, or ApiError where the request may not."""
    if request.acks not in _ACKS:
        raise ApiError(ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, not {request.acks}")
    if data.records is None:
        raise ApiError(ErrorCode.invalid_record, "a partition without records")
    partition = context.services.replicas.find(topic, data.partition)
    if partition.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {partition.topic}")
    return partition, data.records


def append_to(context: RequestContext, request: ProduceRequest, partition: Partition, records: memoryview) -> Appended:
    info = partition.append(records, request.acks)
    context.services.traffic.produced(records.nbytes)
    return Appended(info, partition.durable(info) if request.acks == ALL else None)


def is_transactional(records: memoryview) -> bool:
    return (
        records.nbytes >= HEADER_SIZE
        and bool(records[_LOW_ATTRIBUTES_POSITION] & TRANSACTIONAL_MASK)
        and records[_MAGIC_POSITION] == MAGIC
    )
