"""EndTxn (key 26): commit or abort a transaction.

Behaviour
    The answer comes once the outcome is safe in the log; the partitions are told after that, and until all of them know, the next
    transaction of the producer has to wait. It is answered after a moment, or gets CONCURRENT_TRANSACTIONS, whatever its
    producer says it is: the ids and epochs that count are known once all is complete. A repeated request gets the same answer; one
    that asks for the other outcome gets INVALID_TXN_STATE. Any process that knows the producer's id and epoch may end its transaction.
Versions
    0-5. Before 2 a fenced producer gets INVALID_PRODUCER_EPOCH. From 5 on (KIP-890) every end raises the epoch, the answer says with what
    id and epoch the producer goes on, and an abort is allowed before anything was written.
Gaps
    None.
"""

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.transactions.client_capabilities import fenced_error_code
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.commands import (
    FIRST_VERSION_WITH_EPOCH_BUMP,
    NO_PRODUCER,
    EndRequest,
)
from catchment.protocol.errors import ApiError

_FIRST_WITH_PRODUCER_FENCED = 2
_FIRST_WITH_EPOCH_BUMP = 5


@api(26, versions=(0, 5))
async def end_txn(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    raises_epoch = context.header.api_version >= _FIRST_WITH_EPOCH_BUMP
    try:
        producer = await context.services.transactions.end(
            EndRequest(
                request.transactional_id,
                Producer(request.producer_id, request.producer_epoch),
                request.committed,
                FIRST_VERSION_WITH_EPOCH_BUMP if raises_epoch else 0,
            )
        )
    except ApiError as error:
        return _answer(NO_PRODUCER, fenced_error_code(context, error.code, _FIRST_WITH_PRODUCER_FENCED))
    return _answer(producer if raises_epoch else NO_PRODUCER, ErrorCode.none)


def _answer(producer: Producer, error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
    )
