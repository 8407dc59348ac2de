"""DescribeAcls (key 29): the access-control entries that a filter matches.

Behaviour
    SECURITY_DISABLED, as from a Kafka broker without an authorizer: every client may do everything.
Versions
    1-3. Version 2 is the first flexible one. The resource type User since 3.
Gaps
    There is no authorizer.
"""

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api


@api(29, versions=(1, 3))
async def describe_acls(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.security_disabled,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )
