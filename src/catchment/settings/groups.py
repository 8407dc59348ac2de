"""The settings of single groups, which administrators change with `kafka-configs --group`, and how they take effect.

All group settings of Kafka 4.3 are defined. A group's value has to be within the bounds that the broker sets: a change beyond
them is rejected, and a value that later bounds exclude is clamped to them. What a group does not set is the broker's default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from catchment.settings.broker import BrokerSettings
from catchment.settings.setting import Bounds, Choices, Definitions, InvalidSetting, Kind, Setting, Value

_NO_STREAMS: Final = "Accepted for compatibility: there are no streams groups, so it has no effect."
_NO_INTERVAL: Final = "Accepted for compatibility: assignments are made at once, so it has no effect."
# Python's library parses no ISO 8601 durations.
_DURATION: Final = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE)
_EARLIEST_OR_LATEST: Final = ("earliest", "latest")

GROUP_SETTINGS: Final = Definitions(
    [
        Setting("consumer.assignment.interval.ms", Kind.INT, 1000, _NO_INTERVAL, Bounds(0)),
        Setting(
            "consumer.heartbeat.interval.ms",
            Kind.INT,
            5000,
            "How often members of a consumer group send heartbeats.",
            Bounds(1),
        ),
        Setting(
            "consumer.session.timeout.ms",
            Kind.INT,
            45_000,
            "How long a member of a consumer group may send no heartbeat before it is removed from the group.",
            Bounds(1),
        ),
        Setting("share.assignment.interval.ms", Kind.INT, 1000, _NO_INTERVAL, Bounds(0)),
        Setting(
            "share.auto.offset.reset",
            Kind.STRING,
            "latest",
            "Where a share group starts in a partition: `earliest`, `latest`, or a time before now such as `by_duration:PT1H`.",
        ),
        Setting(
            "share.delivery.count.limit",
            Kind.INT,
            5,
            "How often a record is delivered to a share group before it is archived.",
            Bounds(2),
        ),
        Setting(
            "share.heartbeat.interval.ms",
            Kind.INT,
            5000,
            "How often members of a share group send heartbeats.",
            Bounds(1),
        ),
        Setting(
            "share.isolation.level",
            Kind.STRING,
            "read_uncommitted",
            "Whether a share group gets records of open and aborted transactions (`read_uncommitted`) or not (`read_committed`).",
            Choices(("read_committed", "read_uncommitted")),
        ),
        Setting(
            "share.partition.max.record.locks",
            Kind.INT,
            2000,
            "How many records of a partition the consumers of a share group may have acquired at once.",
            Bounds(100),
        ),
        Setting(
            "share.record.lock.duration.ms",
            Kind.INT,
            30_000,
            "How long a consumer of a share group may hold an acquired record before it is delivered again.",
            Bounds(1000),
        ),
        Setting(
            "share.renew.acknowledge.enable",
            Kind.BOOLEAN,
            True,
            "Whether a consumer may extend the lock of an acquired record.",
        ),
        Setting(
            "share.session.timeout.ms",
            Kind.INT,
            45_000,
            "How long a member of a share group may send no heartbeat before it is removed from the group.",
            Bounds(1),
        ),
        Setting("streams.assignment.interval.ms", Kind.INT, 1000, _NO_STREAMS, Bounds(0)),
        Setting("streams.heartbeat.interval.ms", Kind.INT, 5000, _NO_STREAMS, Bounds(1)),
        Setting("streams.initial.rebalance.delay.ms", Kind.INT, 3000, _NO_STREAMS, Bounds(0)),
        Setting("streams.num.standby.replicas", Kind.INT, 0, _NO_STREAMS, Bounds(0)),
        Setting("streams.session.timeout.ms", Kind.INT, 45_000, _NO_STREAMS, Bounds(1)),
    ]
)


class BrokerNames(NamedTuple):
    """The broker settings that hold a group setting's default and bounds."""

    default: str
    lowest: str
    highest: str


BROKER_NAMES: Final[Mapping[str, BrokerNames]] = {
    "consumer.heartbeat.interval.ms": BrokerNames(
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    "consumer.session.timeout.ms": BrokerNames(
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    "share.delivery.count.limit": BrokerNames(
        "group.share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    "share.heartbeat.interval.ms": BrokerNames(
        "group.share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    "share.partition.max.record.locks": BrokerNames(
        "group.share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    "share.record.lock.duration.ms": BrokerNames(
        "group.share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    "share.session.timeout.ms": BrokerNames(
        "group.share.session.timeout.ms",
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
}


class GroupSettings:
    """The effective settings of one group."""

    __slots__ = ("_broker", "_overrides")

    def __init__(self, broker: BrokerSettings, overrides: Mapping[str, str]) -> None:
        self._broker = broker
        self._overrides = overrides

    def __getitem__(self, name: str) -> Value:
        setting = GROUP_SETTINGS[name]
        names = BROKER_NAMES.get(name)
        text = self._overrides.get(name)
        if text is None:
            return setting.default if names is None else self._broker[names.default]
        value = setting.parse(text)
        if names is None or not isinstance(value, int):
            return value
        return min(max(value, self._broker.integer(names.lowest)), self._broker.integer(names.highest))

    def integer(self, name: str) -> int:
        value = self[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is not a whole number")
        return value

    def boolean(self, name: str) -> bool:
        value = self[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name} is not true or false")
        return value

    def text(self, name: str) -> str:
        value = self[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is not a text")
        return value


def validate_group_settings(overrides: Mapping[str, str], broker: BrokerSettings) -> None:
    """Raise InvalidSetting for settings that are unknown, malformed, beyond the broker's bounds or contradict each other."""
    for name, text in overrides.items():
        value = GROUP_SETTINGS.require(name).parse(text)
        if name in BROKER_NAMES and isinstance(value, int):
            _check_bounds(name, value, broker)
    reset = overrides.get("share.auto.offset.reset", "latest")
    if reset not in _EARLIEST_OR_LATEST and _DURATION.fullmatch(reset) is None:
        reason = "It must be earliest, latest or by_duration:<duration>, with a duration such as PT1H or P2DT30M"
        raise InvalidSetting("share.auto.offset.reset", reset, reason)
    effective = GroupSettings(broker, overrides)
    for kind in ("consumer", "share"):
        interval, timeout = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if (interval in overrides or timeout in overrides) and effective.integer(timeout) <= effective.integer(
            interval
        ):
            raise InvalidSetting(
                timeout, effective[timeout], f"It must be greater than {interval} ({effective[interval]})"
            )


def _check_bounds(name: str, value: int, broker: BrokerSettings) -> None:
    names = BROKER_NAMES[name]
    if value < broker.integer(names.lowest):
        raise InvalidSetting(name, value, f"It must be at least {names.lowest} ({broker[names.lowest]})")
    if value > broker.integer(names.highest):
        raise InvalidSetting(name, value, f"It must be no more than {names.highest} ({broker[names.highest]})")
