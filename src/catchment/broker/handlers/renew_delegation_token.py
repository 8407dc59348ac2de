"""RenewDelegationToken (key 39): extend the lifetime of a delegation token (KIP-48).

Behaviour
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as on a PLAINTEXT listener of Kafka.
Versions
    1-2. Version 2 is the first flexible one.
Gaps
    There are no delegation tokens.
"""

from kio.schema.errors import ErrorCode
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse

from catchment.broker.context import NO_THROTTLE, NO_TIME, RequestContext
from catchment.broker.network.routing import api


@api(39, versions=(1, 2))
async def renew_delegation_token(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.delegation_token_request_not_allowed, expiry_timestamp=NO_TIME, throttle_time=NO_THROTTLE
    )
