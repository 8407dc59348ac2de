"""Our definitions against those of Apache Kafka 4.3.1, read from its own ConfigDef into `kafka_4_3_settings.tsv`."""

import csv
from pathlib import Path

from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.ignored import DYNAMIC_IN_KAFKA, READ_ONLY_IN_KAFKA, ignored_settings
from catchment.settings.definitions.topics import TOPIC_SETTINGS
from catchment.settings.groups import BROKER_NAMES, GROUP_SETTINGS
from catchment.settings.setting import Bounds, Definitions, UpdateMode

# Deliberately other: we listen on the loopback only, keep data under the working directory, need no number, and leave the
# size of socket buffers to the system.
OTHER_DEFAULTS = {"listeners", "log.dir", "node.id", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"}
# Kafka can open and close listeners while it runs.
OTHER_MODES = {"listeners", "listener.security.protocol.map"}


def kafka(scope: str) -> dict[str, dict[str, str]]:
    with (Path(__file__).parent / "kafka_4_3_settings.tsv").open(newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file, delimiter="\t") if row["scope"] == scope}


def check(definitions: Definitions, theirs: dict[str, dict[str, str]]) -> None:
    for name, setting in definitions.items():
        if name.startswith("catchment."):
            assert name not in theirs
            continue
        row = theirs[name]
        assert setting.kind == row["kind"], name
        if name not in OTHER_DEFAULTS:
            default = setting.render(setting.default)
            assert ("null" if default is None else default) == row["default"], name
        if row["lowest"] and name != "compression.gzip.level":
            assert isinstance(setting.validator, Bounds), name
            assert setting.validator.lowest == float(row["lowest"]), name
            assert setting.validator.highest == (float(row["highest"]) if row["highest"] else None), name


def test_all_topic_settings_are_defined_as_in_kafka() -> None:
    theirs = kafka("topic")
    assert set(theirs) == {name for name in TOPIC_SETTINGS if not name.startswith("catchment.")}
    check(TOPIC_SETTINGS, theirs)


def test_broker_settings_are_defined_as_in_kafka() -> None:
    check(BROKER_SETTINGS, kafka("broker"))


def test_all_group_settings_are_defined_as_in_kafka() -> None:
    theirs = kafka("group")
    assert set(theirs) == set(GROUP_SETTINGS)
    check(GROUP_SETTINGS, theirs)
    assert {name for names in BROKER_NAMES.values() for name in names} <= set(kafka("broker"))


def test_every_broker_setting_of_kafka_is_used_or_ignored_on_purpose() -> None:
    theirs = kafka("broker")
    assert set(theirs) <= set(BROKER_SETTINGS) | READ_ONLY_IN_KAFKA | DYNAMIC_IN_KAFKA
    for name, row in theirs.items():
        if name in BROKER_SETTINGS and name not in OTHER_MODES:
            dynamic = BROKER_SETTINGS[name].update_mode is UpdateMode.CLUSTER_WIDE
        else:
            dynamic = name in DYNAMIC_IN_KAFKA or name in OTHER_MODES
        assert dynamic == (row["mode"] != "read-only"), name


def test_ignored_settings_have_kafkas_kinds_and_defaults() -> None:
    theirs = kafka("broker")
    for name, setting in ignored_settings().items():
        if name in theirs:
            default = setting.render(setting.default)
            shown = (setting.kind, "null" if default is None else default)
            assert shown == (theirs[name]["kind"], theirs[name]["default"]), name
