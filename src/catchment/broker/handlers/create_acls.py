"""CreateAcls (key 30): add access-control entries.

Behaviour
    Each entry gets SECURITY_DISABLED, as from a Kafka without an authorizer.
Versions
    1-3. Version 2 is the first flexible one, version 3 brought the resource type User.
Gaps
    There is no authorizer.
"""

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api

_REFUSED = AclCreationResult(error_code=ErrorCode.security_disabled, error_message="No Authorizer is configured.")


@api(30, versions=(1, 3))
async def create_acls(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=(_REFUSED,) * len(request.creations))
