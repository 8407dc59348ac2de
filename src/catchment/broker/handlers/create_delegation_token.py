"""CreateDelegationToken (key 38): a token with which other clients act for a user (KIP-48).

Behaviour
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as on a PLAINTEXT listener of Kafka: clients are not authenticated.
Versions
    1-3. Version 2 is the first flexible one. An owner other than the client since 3 (KIP-373).
Gaps
    There are no delegation tokens.
"""

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, NO_TIME, RequestContext
from catchment.broker.network.routing import api

_USER = "User"
_ANONYMOUS = "ANONYMOUS"


@api(38, versions=(1, 3))
async def create_delegation_token(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.delegation_token_request_not_allowed,
        principal_type=request.owner_principal_type or _USER,
        principal_name=request.owner_principal_name or _ANONYMOUS,
        token_requester_principal_type=_USER,
        token_requester_principal_name=_ANONYMOUS,
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
        throttle_time=NO_THROTTLE,
    )
