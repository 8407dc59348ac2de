"""The broker settings of the group coordinators.

They cover classic groups with their committed offsets, consumer groups (KIP-848), share groups (KIP-932) and the topic that holds
the state of share groups. For consumer and share groups they give the defaults, and the bounds within which a group may set its own.
"""

from __future__ import annotations

from typing import Final

from catchment.settings.setting import Bounds, Choices, Kind, Setting

_CLASSIC_GROUPS: Final = [
    Setting(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        3000,
        "How long an empty group waits for more members before its first rebalance, and again after each that joins.",
    ),
    Setting(
        "group.max.session.timeout.ms",
        Kind.INT,
        1_800_000,
        "The longest session timeout that a member of a classic group may request.",
    ),
    Setting("group.max.size", Kind.INT, 2_147_483_647, "How many members a classic group may have.", Bounds(1)),
    Setting(
        "group.min.session.timeout.ms",
        Kind.INT,
        6000,
        "The shortest session timeout that a member of a classic group may request.",
    ),
    Setting(
        "offset.metadata.max.bytes",
        Kind.INT,
        4096,
        "The most bytes of metadata with a committed offset.",
    ),
    Setting(
        "offsets.commit.timeout.ms",
        Kind.INT,
        5000,
        "How long a request to the group coordinator waits for the write before it fails.",
        Bounds(1),
    ),
    Setting(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        600_000,
        "How often the group coordinator checks for expired offsets.",
        Bounds(1),
    ),
    Setting(
        "offsets.retention.minutes",
        Kind.INT,
        10_080,
        "How long the offsets of a group are kept after its last member has left. For groups that never had members, since the commit.",
        Bounds(1),
    ),
    Setting(
        "offsets.topic.num.partitions",
        Kind.INT,
        50,
        "Partitions of `__consumer_offsets`. The topic is created when the first group looks for its coordinator, and must "
        "not get more partitions later: groups would look for their offsets in another one.",
        Bounds(1),
    ),
    Setting(
        "offsets.topic.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of `__consumer_offsets`, but no more than there are brokers when it is created.",
        Bounds(1),
    ),
    Setting(
        "offsets.topic.segment.bytes",
        Kind.INT,
        104_857_600,
        "Segment size of `__consumer_offsets`: small, so that compaction keeps loading short.",
        Bounds(1),
    ),
]

_POLICIES: Final = ("bidirectional", "disabled", "downgrade", "upgrade")

_CONSUMER_GROUPS: Final = [
    Setting(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "The assignors of consumer groups. The first one is used for groups whose members name none.",
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
        "How long a member may send no heartbeat before it is removed, in groups that do not set "
        "`consumer.session.timeout.ms`.",
        Bounds(1),
    ),
]

_SHARE_GROUPS: Final = [
    Setting(
        "group.share.delivery.count.limit",
        Kind.INT,
        5,
        "How often a record is delivered before it is archived, in groups that do not set `share.delivery.count.limit`.",
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
        "After how long the coordinator retries to initialize the state of a share-partition.",
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
        "How many records of a partition may be acquired at once, in groups that do not set "
        "`share.partition.max.record.locks`.",
        Bounds(100, 10_000),
    ),
    Setting(
        "group.share.record.lock.duration.ms",
        Kind.INT,
        30_000,
        "How long a consumer may hold an acquired record, in groups that do not set `share.record.lock.duration.ms`.",
        Bounds(1000, 3_600_000),
    ),
    Setting(
        "group.share.session.timeout.ms",
        Kind.INT,
        45_000,
        "How long a member may send no heartbeat before it is removed, in groups that do not set `share.session.timeout.ms`.",
        Bounds(1),
    ),
]

_SHARE_STATE: Final = [
    Setting(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        Kind.INT,
        300_000,
        "How old the last snapshot of a share-partition's state may get before another is written, so that the log before it can be "
        "deleted.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.snapshot.update.records.per.snapshot",
        Kind.INT,
        500,
        "How many changes of a share-partition's state are written as updates before the next snapshot.",
        Bounds(0, 500),
    ),
    Setting(
        "share.coordinator.state.topic.min.isr",
        Kind.SHORT,
        2,
        "The `min.insync.replicas` of `__share_group_state`, but no more than it has replicas when it is created.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.state.topic.num.partitions",
        Kind.INT,
        50,
        "Partitions of `__share_group_state`. The topic is created when the first share group needs it, and must not get more "
        "partitions later: states would be looked for in another one.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.state.topic.prune.interval.ms",
        Kind.INT,
        300_000,
        "How often records that newer snapshots replace are deleted from `__share_group_state`.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.state.topic.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of `__share_group_state`, but no more than there are brokers when it is created.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.state.topic.segment.bytes",
        Kind.INT,
        104_857_600,
        "Segment size of `__share_group_state`.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.write.timeout.ms",
        Kind.INT,
        5000,
        "How long a request to the share coordinator waits for the write before it fails.",
        Bounds(1),
    ),
]

GROUP_COORDINATOR_SETTINGS: Final = [*_CLASSIC_GROUPS, *_CONSUMER_GROUPS, *_SHARE_GROUPS, *_SHARE_STATE]
