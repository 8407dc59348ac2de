"""DescribeTransactions (key 65): the state of transactional ids at their coordinator.

Behaviour
    Each id has its own result. An unknown id gets TRANSACTIONAL_ID_NOT_FOUND.
Versions
    0.
Gaps
    None.
"""

from datetime import UTC, datetime, timedelta

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i32Timedelta

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.coordination.transactions.records import NO_TIME, Transaction
from catchment.protocol.adapters.describe_transactions import DescribeTransactionsResponse, TransactionState
from catchment.protocol.errors import ApiError

_EPOCH = datetime.fromtimestamp(0, UTC)


@api(65, versions=(0, 0))
async def describe_transactions(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    asked = Turns()(dict.fromkeys(request.transactional_ids))
    states = [await _described(context, transactional_id) async for transactional_id in asked]
    return DescribeTransactionsResponse(throttle_time=NO_THROTTLE, transaction_states=tuple(states))


async def _described(context: RequestContext, transactional_id: TransactionalId) -> TransactionState:
    try:
        if not transactional_id:
            raise ApiError(ErrorCode.invalid_request, "A transactional id cannot be empty.")
        return _state(transactional_id, await context.services.transactions.describe(transactional_id))
    except ApiError as error:
        return TransactionState(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=i32Timedelta.parse(timedelta(0)),
            transaction_start_time=_EPOCH,
            producer_id=ProducerId(0),
            producer_epoch=i16(0),
            topics=(),
        )


def _state(transactional_id: TransactionalId, transaction: Transaction) -> TransactionState:
    partitions: dict[str, list[int]] = {}
    for topic, number in transaction.partitions:
        partitions.setdefault(topic, []).append(number)
    start_ms = transaction.start_time_ms
    return TransactionState(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=transaction.timeout_ms)),
        transaction_start_time=None if start_ms == NO_TIME else _EPOCH + timedelta(milliseconds=start_ms),
        producer_id=ProducerId(transaction.producer_id),
        producer_epoch=i16(transaction.producer_epoch),
        topics=tuple(
            TopicData(topic=TopicName(topic), partitions=tuple(map(i32, numbers)))
            for topic, numbers in partitions.items()
        ),
    )
