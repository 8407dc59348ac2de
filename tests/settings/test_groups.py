"""Settings of groups: their defaults and bounds come from the broker."""

from __future__ import annotations

import pytest

from catchment.settings.broker import BrokerSettings
from catchment.settings.groups import BROKER_NAMES, GROUP_SETTINGS, GroupSettings, validate_group_settings
from catchment.settings.setting import InvalidSetting


def test_a_group_inherits_what_it_does_not_set_from_the_broker() -> None:
    broker = BrokerSettings({"group.share.session.timeout.ms": "50000"})
    assert GroupSettings(broker, {}).integer("share.session.timeout.ms") == 50_000
    assert GroupSettings(broker, {"share.session.timeout.ms": "47000"}).integer("share.session.timeout.ms") == 47_000


def test_defaults_are_the_same_as_those_of_the_broker() -> None:
    values = GroupSettings(BrokerSettings(), {})
    assert {name: values[name] for name in BROKER_NAMES} == {
        name: GROUP_SETTINGS[name].default for name in BROKER_NAMES
    }


def test_a_value_beyond_later_bounds_is_clamped() -> None:
    broker = BrokerSettings({"group.share.max.record.lock.duration.ms": "30000"})
    assert GroupSettings(broker, {"share.record.lock.duration.ms": "60000"}).integer(
        "share.record.lock.duration.ms"
    ) == (30_000)


@pytest.mark.parametrize(
    "given",
    [
        {"share.auto.offset.reset": "earliest"},
        {"share.auto.offset.reset": "by_duration:PT1H"},
        {"share.auto.offset.reset": "by_duration:P2DT3H4M5.5S"},
        {"share.isolation.level": "read_committed", "share.renew.acknowledge.enable": "false"},
        {"share.record.lock.duration.ms": "60000", "consumer.session.timeout.ms": "60000"},
    ],
)
def test_valid_group_settings(given: dict[str, str]) -> None:
    validate_group_settings(given, BrokerSettings())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"share.autooffset.reset": "earliest"}, "Did you mean share.auto.offset.reset"),
        ({"share.auto.offset.reset": "none"}, "by_duration"),
        ({"share.auto.offset.reset": "by_duration:P"}, "by_duration"),
        ({"share.auto.offset.reset": "by_duration:-PT1H"}, "by_duration"),
        ({"share.isolation.level": "serializable"}, "read_committed"),
        ({"share.record.lock.duration.ms": "60001"}, "group.share.max.record.lock.duration.ms"),
        ({"share.record.lock.duration.ms": "14999"}, "group.share.min.record.lock.duration.ms"),
        ({"share.delivery.count.limit": "1"}, "at least 2"),
        ({"consumer.session.timeout.ms": "1"}, "group.consumer.min.session.timeout.ms"),
    ],
)
def test_invalid_group_settings(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        validate_group_settings(given, BrokerSettings())


def test_a_session_must_be_longer_than_the_interval_of_heartbeats() -> None:
    broker = BrokerSettings({"group.share.min.session.timeout.ms": "1"})
    with pytest.raises(InvalidSetting, match=r"share\.heartbeat\.interval\.ms"):
        validate_group_settings({"share.session.timeout.ms": "5000"}, broker)
