"""DescribeCluster (key 60): the cluster's id, controller and brokers (KIP-700).

Behaviour
    Addresses are those of the listener that received the request. There are no controller endpoints: a request for them gets
    MISMATCHED_ENDPOINT_TYPE.
Versions
    0-2. The endpoint type since 1 (KIP-919), fenced brokers since 2 (KIP-1073).
Gaps
    A broker is registered or unknown, never fenced.
"""

from collections.abc import Iterator

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from catchment.broker.admin.authorized_operations import NOT_REQUESTED, ON_CLUSTER
from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.protocol.errors import ApiError

_BROKERS = 1
_CONTROLLERS = 2


@api(60, versions=(0, 2))
async def describe_cluster(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    try:
        _check_endpoint_type(request.endpoint_type)
    except ApiError as error:
        return DescribeClusterResponse(
            throttle_time=NO_THROTTLE,
            error_code=error.code,
            error_message=error.message,
            endpoint_type=request.endpoint_type,
            cluster_id="",
            brokers=(),
        )
    image = context.image
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        cluster_id=image.cluster_id,
        controller_id=BrokerId(image.controller_id),
        brokers=tuple(_brokers(context)),
        cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_REQUESTED,
    )


def _check_endpoint_type(endpoint_type: int) -> None:
    if endpoint_type == _CONTROLLERS:
        raise ApiError(
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if endpoint_type != _BROKERS:
        raise ApiError(ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {endpoint_type}")


def _brokers(context: RequestContext) -> Iterator[DescribeClusterBroker]:
    for broker in context.image.brokers.values():
        endpoint = broker.endpoints.get(context.listener_name)
        if endpoint is not None:
            yield DescribeClusterBroker(
                broker_id=BrokerId(broker.id),
                host=endpoint.host,
                port=i32(endpoint.port),
                rack=broker.rack,
                is_fenced=False,
            )
