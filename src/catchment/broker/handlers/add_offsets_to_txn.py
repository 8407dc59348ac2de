"""AddOffsetsToTxn (key 25): a group's offsets become part of a transaction.

Behaviour
    The partition of the offsets topic that keeps the group becomes one of the transaction's, so that it too is told how the
    transaction ends. The answer comes once that is safe.
Versions
    0-4. Before 2 a fenced producer gets INVALID_PRODUCER_EPOCH.
Gaps
    None.
"""

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.coordinators.internal_topics import OFFSETS_TOPIC
from catchment.broker.network.routing import api
from catchment.broker.transactions.client_capabilities import fenced_error_code
from catchment.coordination.coordinator_shard import Producer
from catchment.protocol.errors import ApiError

_FIRST_WITH_PRODUCER_FENCED = 2
_TRANSACTION_VERSION = 0


@api(25, versions=(0, 4))
async def add_offsets_to_txn(context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    error = ErrorCode.none
    try:
        kept_in = await context.services.groups.find(request.group_id)
        await context.services.transactions.add_partitions(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            [(OFFSETS_TOPIC, kept_in.partition)],
            _TRANSACTION_VERSION,
        )
    except ApiError as refused:
        error = fenced_error_code(context, refused.code, _FIRST_WITH_PRODUCER_FENCED)
    return AddOffsetsToTxnResponse(throttle_time=NO_THROTTLE, error_code=error)
