"""CreateAcls (key 30): add access-control entries.

Behaviour
    Each entry gets SECURITY_DISABLED, as from a Kafka broker without an authorizer.
Versions
    1-3. Version 2 is the first flexible one. The resource type User since 3.
Gaps
    There is no authorizer.
"""

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api

_SECURITY_DISABLED = AclCreationResult(
    error_code=ErrorCode.security_disabled, error_message="No Authorizer is configured."
)


@api(30, versions=(1, 3))
async def create_acls(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=(_SECURITY_DISABLED,) * len(request.creations))
