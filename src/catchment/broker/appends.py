"""Check and append the batch that a Produce request has for one partition."""

import asyncio
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.batch_preparation import PreparedData
from catchment.broker.context import RequestContext
from catchment.cluster.metadata import INTERNAL_TOPICS
from catchment.protocol.batch import COMPRESSION_MASK, HEADER_SIZE, MAGIC, TRANSACTIONAL_MASK
from catchment.protocol.compression import Compression
from catchment.protocol.errors import ApiError
from catchment.protocol.produce import PartitionData, ProduceRequest, TopicKey
from catchment.replication.partition import Partition
from catchment.storage.log import AppendInfo

ALL = -1
_ADMIN_CLIENT_ID = "__admin_client"
"""The client id of Kafka's own tools, which may write to internal topics."""
_ACKS = (ALL, 0, 1)
_WITHOUT_LOG_START = (
    ErrorCode.corrupt_message,
    ErrorCode.kafka_storage_error,
    ErrorCode.message_too_large,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_leader_or_follower,
    ErrorCode.record_list_too_large,
)
_FIRST_WITH_ZSTD = 7
_MAGIC_POSITION = 16
_LOW_ATTRIBUTES_POSITION = 22


class Appended(NamedTuple):
    info: AppendInfo
    durable: "asyncio.Future[None] | None"
    """Done once the high watermark has passed the batch; None if it has already, or if `acks` does not ask for it."""


class Rejected(ApiError):
    """The log rejected a batch; the response also has the log start offset, as in Kafka."""

    def __init__(self, error: ApiError, log_start_offset: int) -> None:
        super().__init__(error.code, error.message, error.record_errors)
        self.log_start_offset = log_start_offset


Outcome = Appended | ApiError
NEEDS_PREPARATION = ApiError(ErrorCode.unknown_server_error, "a worker has to prepare the batch before it is appended")
"""In place of the outcome of a batch that a worker has to prepare first."""


def append(context: RequestContext, request: ProduceRequest, topic: TopicKey, data: PartitionData) -> Outcome:
    """Append a batch that belongs to no transaction."""
    try:
        partition, records = find(context, request, topic, data)
        if is_transactional(records):
            raise ApiError(
                ErrorCode.transactional_id_authorization_failed,
                "the request has a transactional batch but no transactional id",
            )
        if partition.log.is_costly(records) and not isinstance(data, PreparedData):
            return NEEDS_PREPARATION
        return append_to(context, request, partition, data)
    except ApiError as error:
        return error.without_stack()


def find(
    context: RequestContext, request: ProduceRequest, topic: TopicKey, data: PartitionData
) -> tuple[Partition, memoryview]:
    """The partition and the records to append; ApiError if the request must not append them."""
    if request.acks not in _ACKS:
        raise ApiError(ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, not {request.acks}")
    if data.records is None:
        raise ApiError(ErrorCode.invalid_record, "the request has a partition without records")
    partition = context.services.replicas.find(topic, data.partition)
    if partition.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {partition.topic}")
    if context.header.api_version < _FIRST_WITH_ZSTD and _codec(data.records) == Compression.ZSTD:
        raise ApiError(
            ErrorCode.unsupported_compression_type,
            f"zstd needs Produce version {_FIRST_WITH_ZSTD} or later, the request has version {context.header.api_version}",
        )
    return partition, data.records


def _codec(records: memoryview) -> int:
    return records[_LOW_ATTRIBUTES_POSITION] & COMPRESSION_MASK if records.nbytes >= HEADER_SIZE else Compression.NONE


def append_to(context: RequestContext, request: ProduceRequest, partition: Partition, data: PartitionData) -> Appended:
    """Append the data of a partition that `find` has returned."""
    records = data.records
    assert records is not None
    try:
        info = partition.append(data.batch() if isinstance(data, PreparedData) else records, request.acks)
    except ApiError as error:
        if error.code in _WITHOUT_LOG_START:
            raise
        raise Rejected(error, partition.log.log_start_offset) from error
    context.services.traffic.produced(records.nbytes)
    return Appended(info, partition.durable(info) if request.acks == ALL else None)


def is_transactional(records: memoryview) -> bool:
    return (
        records.nbytes >= HEADER_SIZE
        and bool(records[_LOW_ATTRIBUTES_POSITION] & TRANSACTIONAL_MASK)
        and records[_MAGIC_POSITION] == MAGIC
    )
