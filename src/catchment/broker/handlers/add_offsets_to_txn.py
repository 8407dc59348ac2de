"""AddOffsetsToTxn (key 25): add a group's offsets to a transaction.

Behaviour
    The partition of `__consumer_offsets` that stores the group becomes part of the transaction, so that it gets a marker when the
    transaction ends. The response is sent once that is durable.
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
        coordinator = await context.services.groups.find(request.group_id)
        await context.services.transactions.add_partitions(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            [(OFFSETS_TOPIC, coordinator.partition)],
            _TRANSACTION_VERSION,
        )
    except ApiError as failure:
        error = fenced_error_code(context, failure.code, _FIRST_WITH_PRODUCER_FENCED)
    return AddOffsetsToTxnResponse(throttle_time=NO_THROTTLE, error_code=error)
