"""DescribeCluster over the wire."""

import pytest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


def describe(
    wire: Wire, version: int = 2, endpoint_type: int = 1, include_operations: bool = False
) -> DescribeClusterResponse:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=include_operations,
        endpoint_type=i8(endpoint_type),
        include_fenced_brokers=False,
    )
    response = wire.ask(request, version)
    assert isinstance(response, DescribeClusterResponse)
    return response


@pytest.mark.parametrize("version", range(3))
def test_the_lone_broker_is_there_with_its_address_and_is_the_controller(
    broker: Broker, wire: Wire, version: int
) -> None:
    response = describe(wire, version)
    assert response.error_code is ErrorCode.none
    assert response.controller_id == 1
    (described,) = response.brokers
    assert f"{described.host}:{described.port}" == broker.bootstrap_servers
    assert (described.broker_id, described.is_fenced) == (1, False)


def test_the_cluster_keeps_its_id_through_a_restart(broker: Broker) -> None:
    with Wire(broker) as wire:
        cluster_id = describe(wire).cluster_id
    assert len(cluster_id) == 22
    broker.restart()
    with Wire(broker) as wire:
        assert describe(wire).cluster_id == cluster_id


def test_authorized_operations_are_returned_on_demand_as_by_kafka_without_an_authorizer(wire: Wire) -> None:
    assert describe(wire, include_operations=True).cluster_authorized_operations == 8096
    assert describe(wire).cluster_authorized_operations == -(2**31)


def test_a_broker_has_no_endpoints_of_controllers(wire: Wire) -> None:
    assert describe(wire, endpoint_type=2).error_code is ErrorCode.mismatched_endpoint_type
    assert describe(wire, endpoint_type=9).error_code is ErrorCode.unsupported_endpoint_type


def test_the_rack_is_returned() -> None:
    with Broker(settings={"broker.rack": "r7"}) as broker, Wire(broker) as wire:
        assert describe(wire).brokers[0].rack == "r7"
