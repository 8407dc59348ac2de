"""UnregisterBroker (key 64): remove the registration of a broker that will not return (KIP-631).

Behaviour
    A broker is registered only while it runs. An id that is not registered gets BROKER_ID_NOT_REGISTERED, as in Kafka.
Versions
    0.
Gaps
    Kafka also unregisters a running broker. Here that gets INVALID_REQUEST: stop the broker instead.
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
        message = f"Broker {request.broker_id} is running: stop it to remove its registration."
    return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=code, error_message=message)
