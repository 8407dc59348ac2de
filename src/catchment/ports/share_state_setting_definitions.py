"""The settings of the topic that keeps the state of share groups, and of its coordinator."""

from __future__ import annotations

from typing import Final

from catchment.ports.settings import Bounds, Kind, Setting

SHARE_STATE_SETTINGS: Final = [
    Setting(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        Kind.INT,
        300_000,
        "How old the last snapshot of a share-partition's state may be before it is written anew, so that the log before it "
        "can be cut off.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.snapshot.update.records.per.snapshot",
        Kind.INT,
        500,
        "How many changes of a share-partition's state are written as updates before the whole is written as a snapshot.",
        Bounds(0, 500),
    ),
    Setting(
        "share.coordinator.state.topic.min.isr",
        Kind.SHORT,
        2,
        "The `min.insync.replicas` of `__share_group_state`, but no more than it has replicas when it is made.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.state.topic.num.partitions",
        Kind.INT,
        50,
        "Partitions of `__share_group_state`. The topic is made when the first share group needs it, and must not grow later: "
        "states would be looked for in another partition.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.state.topic.prune.interval.ms",
        Kind.INT,
        300_000,
        "How often what newer snapshots have made superfluous is cut off `__share_group_state`.",
        Bounds(1),
    ),
    Setting(
        "share.coordinator.state.topic.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of `__share_group_state`, but no more than there are brokers when it is made.",
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
        "How long a request to the share coordinator waits for the disk before it is answered with an error.",
        Bounds(1),
    ),
]
