"""DescribeQuorum, UpdateFeatures and UnregisterBroker over the wire: one controller, fixed features, one broker."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8, i16
from tests.broker.handlers.wire import Wire
from tests.compat import admin_requests

from catchment.testing.embedded import Broker


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_controller_is_the_only_voter(broker: Broker, wire: Wire, version: int) -> None:
    def partition(wire: Wire) -> tuple[int, int]:
        answer = wire.ask(admin_requests.quorum(), version)
        ((one,),) = [topic.partitions for topic in answer.topics]
        assert (one.error_code, one.leader_id, one.observers) == (ErrorCode.none, 1, ())
        assert [voter.replica_id for voter in one.current_voters] == [1]
        if version == 2:
            host, _, port = broker.bootstrap_servers.rpartition(":")
            assert [(listener.host, listener.port) for node in answer.nodes for listener in node.listeners] == [
                (host, int(port))
            ]
        return one.leader_epoch, one.high_watermark

    before = partition(wire)
    broker.create_topic("a")
    created = partition(wire)
    assert before < created
    broker.restart()
    with Wire(broker) as again:
        assert created < partition(again)


def test_another_partition_has_no_quorum(wire: Wire) -> None:
    for request, version in admin_requests.unknown_quorums():
        answer = wire.ask(request, version)
        assert {one.error_code for topic in answer.topics for one in topic.partitions} <= {
            ErrorCode.unknown_topic_or_partition
        }


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("level", "upgrade_type", "code"),
    [
        (2, 1, ErrorCode.none),
        (3, 1, ErrorCode.invalid_update_version),
        (1, 1, ErrorCode.invalid_update_version),
        (1, 2, ErrorCode.invalid_update_version),
        (-1, 1, ErrorCode.invalid_update_version),
    ],
)
def test_a_feature_keeps_its_level(wire: Wire, version: int, level: int, upgrade_type: int, code: ErrorCode) -> None:
    update = FeatureUpdateKey(
        feature="transaction.version", max_version_level=i16(level), upgrade_type=i8(upgrade_type)
    )
    answer = wire.ask(UpdateFeaturesRequest(feature_updates=(update,)), version)
    assert answer.error_code is code
    assert (answer.error_message is None) == (code is ErrorCode.none)
    assert [result.error_code for result in answer.results] == ([code] if not code.value and version < 2 else [])


def test_a_broker_that_runs_is_not_unregistered(wire: Wire) -> None:
    def unregister(broker_id: int) -> ErrorCode:
        code = wire.ask(UnregisterBrokerRequest(broker_id=BrokerId(broker_id)), 0).error_code
        assert isinstance(code, ErrorCode)
        return code

    assert unregister(2) is ErrorCode.broker_id_not_registered
    assert unregister(1) is ErrorCode.invalid_request
