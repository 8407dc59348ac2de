"""The broker settings of share groups (KIP-932): their defaults, and between which bounds a group may have its own."""

from __future__ import annotations

from typing import Final

from catchment.ports.settings import Bounds, Kind, Setting

SHARE_GROUP_SETTINGS: Final = [
    Setting(
        "group.share.delivery.count.limit",
        Kind.INT,
        5,
        "How often a record is delivered before it is given up, in groups that do not set `share.delivery.count.limit`.",
        Bounds(2, 10),
    ),
    Setting(
        "group.share.heartbeat.interval.ms",
        Kind.INT,
        5000,
        "How often members send heartbeats, in groups that do not set `share.heartbeat.interval.ms`.",
        Bounds(1),
    ),
    Setting(
        "group.share.initialize.retry.interval.ms",
        Kind.INT,
        30_000,
        "After how long the coordinator tries again to set up the state of a partition that a share group is to read.",
        Bounds(1),
    ),
    Setting(
        "group.share.max.delivery.count.limit",
        Kind.INT,
        10,
        "The highest `share.delivery.count.limit` that a group may set.",
        Bounds(5, 25),
    ),
    Setting(
        "group.share.max.heartbeat.interval.ms",
        Kind.INT,
        15_000,
        "The longest `share.heartbeat.interval.ms` that a group may set.",
        Bounds(1),
    ),
    Setting(
        "group.share.max.partition.max.record.locks",
        Kind.INT,
        4000,
        "The highest `share.partition.max.record.locks` that a group may set.",
        Bounds(2000, 10_000),
    ),
    Setting(
        "group.share.max.record.lock.duration.ms",
        Kind.INT,
        60_000,
        "The longest `share.record.lock.duration.ms` that a group may set.",
        Bounds(30_000, 3_600_000),
    ),
    Setting(
        "group.share.max.session.timeout.ms",
        Kind.INT,
        60_000,
        "The longest `share.session.timeout.ms` that a group may set.",
        Bounds(1),
    ),
    Setting(
        "group.share.max.share.sessions",
        Kind.INT,
        2000,
        "How many members of share groups may read from this broker at once.",
        Bounds(1),
    ),
    Setting("group.share.max.size", Kind.INT, 200, "How many members a share group may have.", Bounds(1, 1000)),
    Setting(
        "group.share.min.delivery.count.limit",
        Kind.INT,
        2,
        "The lowest `share.delivery.count.limit` that a group may set.",
        Bounds(2, 5),
    ),
    Setting(
        "group.share.min.heartbeat.interval.ms",
        Kind.INT,
        5000,
        "The shortest `share.heartbeat.interval.ms` that a group may set.",
        Bounds(1),
    ),
    Setting(
        "group.share.min.partition.max.record.locks",
        Kind.INT,
        100,
        "The lowest `share.partition.max.record.locks` that a group may set.",
        Bounds(100, 2000),
    ),
    Setting(
        "group.share.min.record.lock.duration.ms",
        Kind.INT,
        15_000,
        "The shortest `share.record.lock.duration.ms` that a group may set.",
        Bounds(1000, 30_000),
    ),
    Setting(
        "group.share.min.session.timeout.ms",
        Kind.INT,
        45_000,
        "The shortest `share.session.timeout.ms` that a group may set.",
        Bounds(1),
    ),
    Setting(
        "group.share.partition.max.record.locks",
        Kind.INT,
        2000,
        "How many records of a partition may be with consumers at once, in groups that do not set "
        "`share.partition.max.record.locks`.",
        Bounds(100, 10_000),
    ),
    Setting(
        "group.share.record.lock.duration.ms",
        Kind.INT,
        30_000,
        "How long a record is its consumer's alone, in groups that do not set `share.record.lock.duration.ms`.",
        Bounds(1000, 3_600_000),
    ),
    Setting(
        "group.share.session.timeout.ms",
        Kind.INT,
        45_000,
        "How long a member may be silent before it is taken for dead, in groups that do not set `share.session.timeout.ms`.",
        Bounds(1),
    ),
]
