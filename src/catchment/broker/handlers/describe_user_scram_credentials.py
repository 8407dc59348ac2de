"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms for which users have credentials (KIP-554).

Behaviour
    No user has credentials: a request for all users gets an empty list, a named user RESOURCE_NOT_FOUND, and a user that is named
    twice DUPLICATE_RESOURCE.
Versions
    0.
Gaps
    There is no SCRAM.
"""

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns


@api(50, versions=(0, 0))
async def describe_user_scram_credentials(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    named = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message="",
        results=tuple([_result(name, times) async for name, times in Turns()(named.items())]),
    )


def _result(user: str, times: int) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.resource_not_found
    message = f"Attempt to describe a user credential that does not exist: {user}"
    if times > 1:
        code = ErrorCode.duplicate_resource
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message, credential_infos=())
