"""Effective settings of a broker: layers, units, and ignored names."""

from pathlib import Path

import pytest

from catchment.settings.broker import BrokerSettings, parse_address_limits, require_known
from catchment.settings.setting import InvalidSetting, UnknownSetting

FOREVER = 2**63 - 1


def test_the_defaults_apply() -> None:
    settings = BrokerSettings()
    assert settings.node_id == 1
    assert settings.log_dirs == (Path("catchment-data"),)
    assert settings.integer("socket.request.max.bytes") == 104_857_600
    assert settings.boolean("auto.create.topics.enable") is True
    assert settings.text("broker.rack") is None
    assert settings.number("log.cleaner.min.cleanable.ratio") == 0.5
    assert settings["log.cleanup.policy"] == ("delete",)


def test_a_getter_of_the_wrong_kind_raises() -> None:
    settings = BrokerSettings()
    with pytest.raises(TypeError, match="listeners"):
        settings.integer("listeners")
    with pytest.raises(TypeError, match="listeners"):
        settings.number("listeners")
    with pytest.raises(TypeError, match=r"num\.partitions"):
        settings.boolean("num.partitions")
    with pytest.raises(TypeError, match=r"num\.partitions"):
        settings.text("num.partitions")


def test_later_layers_take_precedence() -> None:
    settings = BrokerSettings({"message.max.bytes": "1", "num.partitions": "3"})
    assert settings.integer("message.max.bytes") == 1
    settings = settings.with_dynamic({"message.max.bytes": "2"}, {})
    assert settings.integer("message.max.bytes") == 2
    settings = settings.with_dynamic({"message.max.bytes": "2"}, {"message.max.bytes": "3"})
    assert settings.integer("message.max.bytes") == 3
    assert settings.integer("num.partitions") == 3
    assert settings.with_dynamic({}, {}).integer("message.max.bytes") == 1


def test_a_stored_change_of_a_read_only_setting_is_ignored() -> None:
    assert (
        BrokerSettings().with_dynamic({"num.partitions": "9"}, {"num.partitions": "9"}).integer("num.partitions") == 1
    )


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-5"}, -1),
    ],
)
def test_the_finest_unit_of_retention_takes_precedence(static: dict[str, str], retention_ms: int) -> None:
    settings = BrokerSettings(static)
    assert settings.integer("log.retention.ms") == retention_ms
    assert settings.topic_values()["retention.ms"] == retention_ms


def test_a_dynamic_value_replaces_static_synonyms_in_other_units() -> None:
    settings = BrokerSettings({"log.roll.hours": "1"}).with_dynamic({"log.roll.ms": "5"}, {})
    assert settings.integer("log.roll.ms") == 5
    assert settings.stated("log.roll.hours") == 168


def test_flush_ms_falls_back_to_the_scheduler() -> None:
    assert BrokerSettings().topic_values()["flush.ms"] == FOREVER
    assert BrokerSettings({"log.flush.scheduler.interval.ms": "50"}).topic_values()["flush.ms"] == 50
    given = BrokerSettings({"log.flush.scheduler.interval.ms": "50", "log.flush.interval.ms": "9"})
    assert given.topic_values()["flush.ms"] == 9


def test_a_retention_of_zero_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"log\.retention\.ms"):
        BrokerSettings({"log.retention.hours": "0"})


def test_topics_override_the_broker() -> None:
    settings = BrokerSettings({"log.segment.bytes": "2097152", "catchment.sync.acks": "false"})
    values = settings.topic_values({"retention.ms": "5", "something.newer": "x"})
    assert values["retention.ms"] == 5
    assert values["segment.bytes"] == 2_097_152
    assert values["catchment.sync.acks"] is False
    assert "something.newer" not in values


def test_segments_may_be_small_for_tests() -> None:
    assert BrokerSettings().topic_values({"internal.segment.bytes": "100"})["segment.bytes"] == 100


def test_equal_overrides_share_their_values() -> None:
    settings = BrokerSettings()
    assert settings.topic_values({"retention.ms": "5", "flush.ms": "6"}) is settings.topic_values(
        {"flush.ms": "6", "retention.ms": "5"}
    )
    assert settings.topic_values() is settings.topic_values({})


@pytest.mark.parametrize("given", [{"node.id": "7"}, {"broker.id": "7"}, {"node.id": "7", "broker.id": "7"}])
def test_either_name_gives_the_broker_id(given: dict[str, str]) -> None:
    assert BrokerSettings(given).node_id == 7


def test_two_different_broker_ids_are_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"must equal node\.id"):
        BrokerSettings({"node.id": "7", "broker.id": "8"})


def test_log_dirs_override_log_dir_and_must_differ() -> None:
    assert BrokerSettings({"log.dir": "a", "log.dirs": "b, c"}).log_dirs == (Path("b"), Path("c"))
    assert BrokerSettings({"log.dir": "a"}).log_dirs == (Path("a"),)
    with pytest.raises(InvalidSetting, match="named twice"):
        BrokerSettings({"log.dirs": "b,b"})
    with pytest.raises(InvalidSetting, match="at least one directory"):
        BrokerSettings({"log.dir": ""})


def test_every_name_without_effect_is_logged_once() -> None:
    settings = BrokerSettings(
        {"num.io.threads": "8", "num.partitons": "2", "listener.name.plaintext.ssl.key": "x", "num.partitions": "3"}
    )
    notices = settings.notices()
    assert len(notices) == 3
    assert "num.io.threads is a setting of Kafka" in notices[1]
    assert "Did you mean num.partitions?" in notices[2]


def test_names_typed_by_hand_must_exist() -> None:
    require_known(["num.partitions", "num.io.threads", "listener.name.x.y"])
    with pytest.raises(UnknownSetting, match=r"num\.partitons"):
        require_known(["num.partitons"])


def test_a_process_that_is_a_controller_only_is_rejected() -> None:
    assert BrokerSettings({"process.roles": "broker,controller"}).node_id == 1
    with pytest.raises(InvalidSetting, match=r"process\.roles"):
        BrokerSettings({"process.roles": "controller"})


def test_limits_of_single_addresses() -> None:
    assert parse_address_limits("127.0.0.1:200, ::1:5") == {"127.0.0.1": 200, "::1": 5}
    assert BrokerSettings().connection_limits_per_address == {}
    with pytest.raises(InvalidSetting, match="address:limit"):
        BrokerSettings({"max.connections.per.ip.overrides": "garbage"})
