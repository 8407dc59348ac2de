"""EndTxn (key 26): commit or abort a transaction.

Behaviour
    The response is sent once the outcome is durable in the log. The markers are written after that, and until all partitions have
    theirs, the producer's next transaction waits for a moment or gets CONCURRENT_TRANSACTIONS, whatever producer id and epoch it
    sends: the valid ones are known only on completion. A retry gets the same response; a request for the other outcome gets
    INVALID_TXN_STATE. Any process with the producer's id and epoch may end its transaction.
Versions
    0-5. Before 2 a fenced producer gets INVALID_PRODUCER_EPOCH. Since 5 (KIP-890) every end bumps the epoch, the response has the
    producer id and epoch to continue with, and an empty transaction may be aborted.
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
    bumps_epoch = context.header.api_version >= _FIRST_WITH_EPOCH_BUMP
    try:
        producer = await context.services.transactions.end(
            EndRequest(
                request.transactional_id,
                Producer(request.producer_id, request.producer_epoch),
                request.committed,
                FIRST_VERSION_WITH_EPOCH_BUMP if bumps_epoch else 0,
            )
        )
    except ApiError as error:
        return _response(NO_PRODUCER, fenced_error_code(context, error.code, _FIRST_WITH_PRODUCER_FENCED))
    return _response(producer if bumps_epoch else NO_PRODUCER, ErrorCode.none)


def _response(producer: Producer, error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
    )
