"""SaslHandshake (key 17): agree on a SASL mechanism, which no listener requires.

Behaviour
    Every mechanism gets ILLEGAL_SASL_STATE, as on a PLAINTEXT listener of Kafka. Some clients take a broker without this API for
    Kafka 0.9.
Versions
    0-1. Version 1 means that SaslAuthenticate follows.
Gaps
    There is no SASL.
"""

from kio.schema.errors import ErrorCode
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import api


@api(17, versions=(0, 1))
async def sasl_handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
