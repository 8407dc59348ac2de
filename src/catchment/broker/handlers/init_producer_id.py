"""InitProducerId (key 22): give an idempotent producer its id.

Behaviour
    A producer without a transactional id gets a new id with epoch 0, whatever it had before (KIP-360 leaves raising the epoch to the
    client). Ids come from blocks that are set aside on disk, so none is given twice, not after a crash either.
Versions
    0-5. Kafka's version 6 (two-phase commit, KIP-939) is not stable.
Gaps
    There are no transactions yet: with a transactional id the answer is COORDINATOR_NOT_AVAILABLE.
"""

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.protocol.errors import ApiError

_NONE = -1


@api(22, versions=(0, 5))
async def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    try:
        _check(request)
        producer_id = await context.services.controller.next_producer_id()
    except ApiError as error:
        return InitProducerIdResponse(throttle_time=NO_THROTTLE, error_code=error.code, producer_epoch=i16(_NONE))
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(0),
    )


def _check(request: InitProducerIdRequest) -> None:
    if request.transactional_id == "":
        raise ApiError(ErrorCode.invalid_request, "A transactional id may be null, but not empty.")
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise ApiError(ErrorCode.invalid_request, "A producer id and its epoch are given together or not at all.")
    if request.transactional_id is not None:
        raise ApiError(ErrorCode.coordinator_not_available, "This broker has no transactions yet.")
