"""ListTransactions (key 66): the transactional ids that this broker coordinates.

Behaviour
    States, producer ids, a duration and a pattern filter; each that is given must hold. States that do not exist are named in the
    answer. A duration is since the start of the last transaction, whether it has ended or not, as in Kafka. Patterns are RE2
    (KIP-1152) and match the whole id. While a shard is loading, the answer is COORDINATOR_LOAD_IN_PROGRESS.
Versions
    0-2. Filter by duration from 1 on (KIP-994), by pattern from 2 on.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TransactionalId

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.coordination.regular_expressions import compiled
from catchment.coordination.transactions.records import Transaction
from catchment.coordination.transactions.records import TransactionState as State
from catchment.protocol.errors import ApiError

# Kafka knows two states more, in which no transaction of ours can be seen.
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
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(state for state in request.state_filters if state not in _STATES),
        transaction_states=tuple(
            TransactionState(
                transactional_id=TransactionalId(transactional_id),
                producer_id=ProducerId(transaction.producer_id),
                transaction_state=transaction.state.title,
            )
            for transactional_id, transaction in listed
            if _is_asked_for(request, transaction, now_ms)
            and (pattern is None or pattern.fullmatch(transactional_id) is not None)
        ),
    )


def _is_asked_for(request: ListTransactionsRequest, transaction: Transaction, now_ms: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.title not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - transaction.start_time_ms > request.duration_filter
