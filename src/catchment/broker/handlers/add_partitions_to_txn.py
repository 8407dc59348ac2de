"""AddPartitionsToTxn (key 24): add partitions to a transaction, before the producer writes to them.

Behaviour
    A transaction starts with its first partition. If one of the partitions does not exist, none is added: it gets
    UNKNOWN_TOPIC_OR_PARTITION and the others OPERATION_NOT_ATTEMPTED. The response is sent once the partitions are durable in the
    log, so that each of them gets a marker when the transaction ends, even after a crash.
    With `verify_only` nothing is added; a partition that is not part of the transaction gets TRANSACTION_ABORTABLE (KIP-890).
Versions
    0-5. Before 2 a fenced producer gets INVALID_PRODUCER_EPOCH. Up to 3 one transaction from a client, since 4 many from brokers.
Gaps
    None.
"""

from collections.abc import Mapping

from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.transactions.client_capabilities import fenced_error_code
from catchment.broker.turns import Turns
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.commands import FIRST_VERSION_WITH_EPOCH_BUMP
from catchment.coordination.transactions.records import TopicPartition
from catchment.protocol.errors import ApiError

_FIRST_WITH_PRODUCER_FENCED = 2
_FIRST_FROM_BROKERS = 4


@api(24, versions=(0, 5))
async def add_partitions_to_txn(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    turns = Turns()
    results = [await _result(context, transaction, turns) async for transaction in turns(request.transactions)]
    return AddPartitionsToTxnResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results_by_transaction=tuple(results)
    )


async def _result(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction, turns: Turns
) -> AddPartitionsToTxnResult:
    named = ((topic.name, number) for topic in transaction.topics for number in topic.partitions)
    asked: list[TopicPartition] = list(dict.fromkeys([partition async for partition in turns(named)]))
    outcomes = _missing_partition_outcomes(context, asked) or await _outcomes(context, transaction, asked)
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=tuple(
            [
                AddPartitionsToTxnTopicResult(
                    name=TopicName(topic.name),
                    results_by_partition=tuple(
                        [
                            AddPartitionsToTxnPartitionResult(
                                partition_index=i32(number),
                                partition_error_code=fenced_error_code(
                                    context, outcomes[topic.name, number], _FIRST_WITH_PRODUCER_FENCED
                                ),
                            )
                            async for number in turns(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns(transaction.topics)
            ]
        ),
    )


def _missing_partition_outcomes(
    context: RequestContext, asked: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """The outcomes if a partition does not exist; empty if all exist."""
    unknown = [partition for partition in asked if context.image.partition(*partition) is None]
    if not unknown:
        return {}
    return {
        **dict.fromkeys(asked, ErrorCode.operation_not_attempted),
        **dict.fromkeys(unknown, ErrorCode.unknown_topic_or_partition),
    }


async def _outcomes(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction, asked: list[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    transactions = context.services.transactions
    transactional_id = transaction.transactional_id
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return await transactions.verify_partitions(transactional_id, *producer, asked, adds=False)
    is_from_broker = context.header.api_version >= _FIRST_FROM_BROKERS
    try:
        await transactions.add_partitions(
            transactional_id, producer, asked, FIRST_VERSION_WITH_EPOCH_BUMP if is_from_broker else 0
        )
    except ApiError as error:
        return dict.fromkeys(asked, error.code)
    return dict.fromkeys(asked, ErrorCode.none)
