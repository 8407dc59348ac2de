"""SaslAuthenticate (key 36): exchange SASL tokens, which no listener requires (KIP-152).

Behaviour
    ILLEGAL_SASL_STATE, as on a PLAINTEXT listener of Kafka. The tokens are ignored.
Versions
    0-2. The session lifetime since 1 (KIP-368). Version 2 is the first flexible one.
Gaps
    There is no SASL.
"""

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import api

_REASON = "SaslAuthenticate request received after successful authentication"


@api(36, versions=(0, 2))
async def sasl_authenticate(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.illegal_sasl_state, error_message=_REASON, auth_bytes=b"")
