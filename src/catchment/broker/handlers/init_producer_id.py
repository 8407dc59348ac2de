"""InitProducerId (key 22): assign a producer id and epoch.

Behaviour
    A producer without a transactional id gets a new id with epoch 0, whatever it had before (KIP-360 leaves the epoch bump to the
    client). Ids are allocated in blocks that are stored on disk, so none is assigned twice, not even after a crash.
    With a transactional id, the producer fences all earlier ones with that id. If one of them left a transaction open, it is
    aborted, and the response has CONCURRENT_TRANSACTIONS until that is complete. A producer that sends its current id and epoch
    gets the next epoch; one with an outdated epoch is fenced (KIP-360).
Versions
    0-5. The current producer id and epoch since 3. Before 4 a fenced producer gets INVALID_PRODUCER_EPOCH. Kafka's version 6
    (two-phase commit, KIP-939) is not stable.
Gaps
    None.
"""

from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.transactions.client_capabilities import fenced_error_code
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.commands import NO_PRODUCER, InitRequest
from catchment.protocol.errors import ApiError

_NONE = -1
_FIRST_WITH_PRODUCER_FENCED = 4


@api(22, versions=(0, 5))
async def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    try:
        producer = await _init(context, request)
    except ApiError as error:
        return _response(NO_PRODUCER, fenced_error_code(context, error.code, _FIRST_WITH_PRODUCER_FENCED))
    return _response(producer, ErrorCode.none)


async def _init(context: RequestContext, request: InitProducerIdRequest) -> Producer:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise ApiError(ErrorCode.invalid_request, "The producer id and its epoch must be given together.")
    if request.transactional_id is None:
        return Producer(await context.services.controller.next_producer_id(), 0)
    is_known = request.producer_id != _NONE
    return await context.services.transactions.init(
        InitRequest(
            request.transactional_id,
            request.transaction_timeout // timedelta(milliseconds=1),
            Producer(request.producer_id, request.producer_epoch) if is_known else None,
        )
    )


def _response(producer: Producer, error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
    )
