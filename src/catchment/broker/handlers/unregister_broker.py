"""UnregisterBroker (key 64): forget a broker that will not come back (KIP-631).

Behaviour
    A broker is registered for as long as it runs, so there is never one to forget: an id that is not registered is
    BROKER_ID_NOT_REGISTERED, as in Kafka, and one that is registered is running.
Versions
    0.
Gaps
    Kafka also unregisters a broker that is running. Here that is an INVALID_REQUEST: stop the broker instead.
"""

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api


@api(64, versions=(0, 0))
async def unregister_broker(context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    code = ErrorCode.broker_id_not_registered
    message = f"Broker ID {request.broker_id} is not currently registered"
    if request.broker_id in context.image.brokers:
        code = ErrorCode.invalid_request
        message = f"Broker {request.broker_id} is running: stop it, and its registration ends with it."
    return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=code, error_message=message)
