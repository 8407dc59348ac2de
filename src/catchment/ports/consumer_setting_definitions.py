"""The broker settings of consumer groups (KIP-848): their defaults, and between which bounds a group may have its own."""

from __future__ import annotations

from typing import Final

from catchment.ports.settings import Bounds, Choices, Kind, Setting

_POLICIES: Final = ("bidirectional", "disabled", "downgrade", "upgrade")

CONSUMER_GROUP_SETTINGS: Final = [
    Setting(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "Who assigns partitions in consumer groups. The first one serves groups whose members ask for none.",
        Choices(("uniform", "range")),
    ),
    Setting(
        "group.consumer.heartbeat.interval.ms",
        Kind.INT,
        5000,
        "How often members send heartbeats, in groups that do not set `consumer.heartbeat.interval.ms`.",
        Bounds(1),
    ),
    Setting(
        "group.consumer.max.heartbeat.interval.ms",
        Kind.INT,
        15_000,
        "The longest `consumer.heartbeat.interval.ms` that a group may set.",
        Bounds(1),
    ),
    Setting(
        "group.consumer.max.session.timeout.ms",
        Kind.INT,
        60_000,
        "The longest `consumer.session.timeout.ms` that a group may set.",
        Bounds(1),
    ),
    Setting(
        "group.consumer.min.heartbeat.interval.ms",
        Kind.INT,
        5000,
        "The shortest `consumer.heartbeat.interval.ms` that a group may set.",
        Bounds(1),
    ),
    Setting(
        "group.consumer.min.session.timeout.ms",
        Kind.INT,
        45_000,
        "The shortest `consumer.session.timeout.ms` that a group may set.",
        Bounds(1),
    ),
    Setting(
        "group.consumer.max.size",
        Kind.INT,
        2_147_483_647,
        "How many members a consumer group may have. For classic groups it is `group.max.size`.",
        Bounds(1),
    ),
    Setting(
        "group.consumer.migration.policy",
        Kind.STRING,
        "bidirectional",
        "Which groups may change their protocol while they have members: `upgrade` from classic to consumer groups, "
        "`downgrade` back, `bidirectional` both, `disabled` neither. Empty groups always may.",
        Choices((*_POLICIES, *map(str.upper, _POLICIES))),
    ),
    Setting(
        "group.consumer.session.timeout.ms",
        Kind.INT,
        45_000,
        "How long a member may be silent before it is taken for dead, in groups that do not set "
        "`consumer.session.timeout.ms`.",
        Bounds(1),
    ),
]
