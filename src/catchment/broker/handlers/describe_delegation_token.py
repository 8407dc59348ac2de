"""DescribeDelegationToken (key 41): the delegation tokens of some users, or of all (KIP-48).

Behaviour
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as on a PLAINTEXT listener of Kafka.
Versions
    1-3. Version 2 is the first flexible one. The requester of a token since 3 (KIP-373).
Gaps
    There are no delegation tokens.
"""

from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.response import DescribeDelegationTokenResponse
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api


@api(41, versions=(1, 3))
async def describe_delegation_token(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.delegation_token_request_not_allowed, tokens=(), throttle_time=NO_THROTTLE
    )
