"""DeleteAcls (key 31): remove the access-control entries that filters match.

Behaviour
    Each filter gets SECURITY_DISABLED, as from a Kafka broker without an authorizer.
Versions
    1-3. Version 2 is the first flexible one. The resource type User since 3.
Gaps
    There is no authorizer.
"""

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsResponse
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api

_SECURITY_DISABLED = DeleteAclsFilterResult(
    error_code=ErrorCode.security_disabled, error_message="No Authorizer is configured.", matching_acls=()
)


@api(31, versions=(1, 3))
async def delete_acls(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=(_SECURITY_DISABLED,) * len(request.filters))
