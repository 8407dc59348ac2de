"""ListTransactions (key 66): the transactional ids that this broker coordinates.

Behaviour
    Filters by state, producer id, duration and pattern must all match. Unknown states are returned in the response. The duration
    is the time since the start of the last transaction, whether it has ended or not, as in Kafka. A pattern is in RE2 syntax
    (KIP-1152) and matches the whole id. While a partition of `__transaction_state` is loading, the response has
    COORDINATOR_LOAD_IN_PROGRESS.
Versions
    0-2. Filter by duration since 1 (KIP-994), by pattern since 2.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TransactionalId

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.coordination.regular_expressions import compiled
from catchment.coordination.transactions.records import Transaction
from catchment.coordination.transactions.records import TransactionState as State
from catchment.protocol.errors import ApiError

# Kafka has two more states, which no transaction of this broker is ever in.
_STATES = {*[state.title for state in State], "Dead", "PrepareEpochFence"}


@api(66, versions=(0, 2))
async def list_transactions(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    try:
        pattern = compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None
        listed = await context.services.transactions.listing()
    except ApiError as error:
        return ListTransactionsResponse(
            throttle_time=NO_THROTTLE, error_code=error.code, unknown_state_filters=(), transaction_states=()
        )
    now_ms = context.services.clock.now_ms()
    states, producer_ids = dict.fromkeys(request.state_filters), frozenset(request.producer_id_filters)
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(state for state in states if state not in _STATES),
        transaction_states=tuple(
            [
                TransactionState(
                    transactional_id=TransactionalId(transactional_id),
                    producer_id=ProducerId(transaction.producer_id),
                    transaction_state=transaction.state.title,
                )
                async for transactional_id, transaction in Turns()(listed)
                if (not producer_ids or transaction.producer_id in producer_ids)
                and (not states or transaction.state.title in states)
                and _has_lasted(transaction, request.duration_filter, now_ms)
                and (pattern is None or pattern.fullmatch(transactional_id) is not None)
            ]
        ),
    )


def _has_lasted(transaction: Transaction, duration_ms: int, now_ms: int) -> bool:
    return duration_ms < 0 or now_ms - transaction.start_time_ms > duration_ms
