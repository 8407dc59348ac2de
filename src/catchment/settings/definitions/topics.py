"""The settings of a topic, and which broker setting each takes its default from.

All topic settings of Kafka 4.3 are here, also those that describe features Catchment does not have (tiered storage,
replication throttles): a topic created elsewhere must be creatable here, so they are accepted, kept and described. The
documentation says so where a setting has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from catchment.settings.setting import Bounds, Choices, Definitions, InvalidSetting, Kind, Pattern, Setting, Value

SMALLEST_SEGMENT_BYTES: Final = 1 << 20
"""KIP-1030."""
_FOREVER: Final = (1 << 63) - 1
_DAY_MS: Final = 86_400_000
_REPLICA_LIST: Final = Pattern(r"\*|[0-9]+:[0-9]+", "[partition]:[broker],… or *")
_NO_TIERS: Final = "Accepted for compatibility: Catchment has no tiered storage, so it has no effect."
_NO_THROTTLE: Final = "Accepted for compatibility: replication is not throttled, so it has no effect."

TOPIC_SETTINGS: Final = Definitions(
    [
        Setting(
            "catchment.retention.consumed.by",
            Kind.LIST,
            (),
            "Delete records once they are consumed: groups that must all have committed past a record before it goes, or * for every "
            "group that has committed an offset of the topic or subscribes to it. Nothing goes while such a group has committed "
            "nothing, or while there is none. The other limits hold beside it. Applies where `cleanup.policy` includes delete.",
        ),
        Setting(
            "catchment.retention.messages",
            Kind.LONG,
            -1,
            "How many of the newest records a partition keeps; older segments are deleted once the rest holds at least this many. "
            "-1 sets no limit. Applies where `cleanup.policy` includes delete.",
            Bounds(-1),
        ),
        Setting(
            "catchment.sync.acks",
            Kind.BOOLEAN,
            True,
            "Whether a record that only one replica holds is forced to the device before `acks=all` is answered. With false, "
            "acknowledged records live in the page cache until the kernel writes them: they survive the end of the process, "
            "not the loss of power.",
        ),
        Setting(
            "cleanup.policy",
            Kind.LIST,
            ("delete",),
            "What happens to old segments: delete drops them when a retention limit is passed, compact keeps the last record of each "
            "key, both do both. An empty list keeps everything.",
            Choices(("compact", "delete")),
        ),
        Setting(
            "compression.gzip.level",
            Kind.INT,
            -1,
            "Level used when the broker itself compresses with gzip; -1 is the library's own choice.",
            Bounds(1, 9, besides=(-1,)),
        ),
        Setting(
            "compression.lz4.level",
            Kind.INT,
            9,
            "Accepted for compatibility: lz4 has one level here, so it has no effect.",
            Bounds(1, 17),
        ),
        Setting(
            "compression.type",
            Kind.STRING,
            "producer",
            "Codec of the stored batches. producer keeps every batch as it came, which costs nothing; any other choice makes the "
            "broker compress batches that came differently.",
            Choices(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        ),
        Setting(
            "compression.zstd.level",
            Kind.INT,
            3,
            "Level used when the broker itself compresses with zstd.",
            Bounds(-131_072, 22),
        ),
        Setting(
            "delete.retention.ms",
            Kind.LONG,
            _DAY_MS,
            "How long a compacted topic keeps a tombstone, so that a reader who is behind still sees the deletion.",
            Bounds(0),
        ),
        Setting(
            "file.delete.delay.ms",
            Kind.LONG,
            60_000,
            "How long a deleted segment's files stay on disk under the suffix .deleted.",
            Bounds(0),
        ),
        Setting(
            "flush.messages",
            Kind.LONG,
            _FOREVER,
            "Force the log to the device after this many records. The default leaves it to `catchment.sync.acks` and the kernel.",
            Bounds(1),
        ),
        Setting(
            "flush.ms",
            Kind.LONG,
            _FOREVER,
            "Force the log to the device when its oldest unforced record is this old.",
            Bounds(0),
        ),
        Setting(
            "follower.replication.throttled.replicas",
            Kind.LIST,
            (),
            f"Replicas whose copying is throttled on the follower. {_NO_THROTTLE}",
            _REPLICA_LIST,
        ),
        Setting(
            "index.interval.bytes",
            Kind.INT,
            4096,
            "Bytes of log between two entries of the offset index: smaller finds faster and needs a larger index.",
            Bounds(0),
        ),
        Setting(
            "internal.segment.bytes",
            Kind.INT,
            None,
            "Segment size below the bounds of `segment.bytes`, for tests.",
            internal=True,
        ),
        Setting(
            "leader.replication.throttled.replicas",
            Kind.LIST,
            (),
            f"Replicas whose copying is throttled on the leader. {_NO_THROTTLE}",
            _REPLICA_LIST,
        ),
        Setting(
            "local.retention.bytes",
            Kind.LONG,
            -2,
            f"Bytes kept locally of a tiered partition. {_NO_TIERS}",
            Bounds(-2),
        ),
        Setting(
            "local.retention.ms",
            Kind.LONG,
            -2,
            f"Milliseconds kept locally of a tiered partition. {_NO_TIERS}",
            Bounds(-2),
        ),
        Setting(
            "max.compaction.lag.ms",
            Kind.LONG,
            _FOREVER,
            "The longest a record of a compacted topic may stay uncompacted.",
            Bounds(1),
        ),
        Setting(
            "max.message.bytes",
            Kind.INT,
            1_048_588,
            "The largest record batch that is accepted, after compression. A larger one is refused with RECORD_TOO_LARGE.",
            Bounds(0),
        ),
        Setting(
            "message.timestamp.after.max.ms",
            Kind.LONG,
            3_600_000,
            "How far a record's timestamp may lie ahead of the broker's clock. Has no effect with LogAppendTime.",
            Bounds(0),
        ),
        Setting(
            "message.timestamp.before.max.ms",
            Kind.LONG,
            _FOREVER,
            "How far a record's timestamp may lie behind the broker's clock. Has no effect with LogAppendTime.",
            Bounds(0),
        ),
        Setting(
            "message.timestamp.type",
            Kind.STRING,
            "CreateTime",
            "Whose time a record carries: CreateTime is the producer's, LogAppendTime the broker's at the moment of the append.",
            Choices(("CreateTime", "LogAppendTime")),
        ),
        Setting(
            "min.cleanable.dirty.ratio",
            Kind.DOUBLE,
            0.5,
            "Share of uncompacted bytes in a log from which compaction starts.",
            Bounds(0, 1),
        ),
        Setting(
            "min.compaction.lag.ms",
            Kind.LONG,
            0,
            "The shortest a record of a compacted topic stays uncompacted.",
            Bounds(0),
        ),
        Setting(
            "min.insync.replicas",
            Kind.INT,
            1,
            "How many replicas must be in sync for a write with `acks=all`; with fewer it is refused with NOT_ENOUGH_REPLICAS.",
            Bounds(1),
        ),
        Setting(
            "preallocate",
            Kind.BOOLEAN,
            False,
            "Accepted for compatibility: segments grow as they are written, so it has no effect.",
        ),
        Setting("remote.log.copy.disable", Kind.BOOLEAN, False, f"Stop copying to remote storage. {_NO_TIERS}"),
        Setting(
            "remote.log.delete.on.disable",
            Kind.BOOLEAN,
            False,
            f"Delete remote data when tiered storage is turned off. {_NO_TIERS}",
        ),
        Setting(
            "remote.storage.enable",
            Kind.BOOLEAN,
            False,
            "Whether the topic uses tiered storage. Only false is accepted: Catchment has no tiered storage.",
        ),
        Setting(
            "retention.bytes",
            Kind.LONG,
            -1,
            "How large a partition may grow before its oldest segments are deleted; -1 sets no limit. "
            "Applies where `cleanup.policy` includes delete.",
        ),
        Setting(
            "retention.ms",
            Kind.LONG,
            7 * _DAY_MS,
            "How long records are kept before their segment is deleted; -1 keeps them for ever. "
            "Applies where `cleanup.policy` includes delete.",
            Bounds(-1),
        ),
        Setting(
            "segment.bytes",
            Kind.INT,
            1 << 30,
            "Size at which a new segment file begins. Retention and compaction work on whole segments.",
            Bounds(SMALLEST_SEGMENT_BYTES),
        ),
        Setting(
            "segment.index.bytes",
            Kind.INT,
            10 << 20,
            "Largest size of a segment's index; a full index begins a new segment.",
            Bounds(4),
        ),
        Setting(
            "segment.jitter.ms",
            Kind.LONG,
            0,
            "A random time up to this much is taken off `segment.ms`, so that many partitions do not begin segments at once.",
            Bounds(0),
        ),
        Setting(
            "segment.ms",
            Kind.LONG,
            7 * _DAY_MS,
            "Age at which a new segment begins even though the old one is not full, so that retention can take it.",
            Bounds(1),
        ),
        Setting(
            "unclean.leader.election.enable",
            Kind.BOOLEAN,
            False,
            "Whether a replica that is not in sync may lead when no other is left. It loses acknowledged records.",
        ),
    ]
)

# Topic setting → the broker settings that hold its default, the finest unit first.
BROKER_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "catchment.retention.consumed.by": ("catchment.retention.consumed.by",),
    "catchment.retention.messages": ("catchment.retention.messages",),
    "catchment.sync.acks": ("catchment.sync.acks",),
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.type": ("compression.type",),
    "compression.zstd.level": ("compression.zstd.level",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "local.retention.bytes": ("log.local.retention.bytes",),
    "local.retention.ms": ("log.local.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}


def validate_topic_settings(overrides: Mapping[str, str], defaults: Mapping[str, Value] | None = None) -> None:
    """Refuse topic settings that are unknown, malformed, out of bounds or at odds with each other.

    `defaults` are the effective values of the topic settings that `overrides` leaves out.
    """
    effective: dict[str, Value] = dict(defaults or {})
    effective.update({name: TOPIC_SETTINGS.require(name).parse(text) for name, text in overrides.items()})
    shortest, longest = effective.get("min.compaction.lag.ms", 0), effective.get("max.compaction.lag.ms", _FOREVER)
    if isinstance(shortest, int) and isinstance(longest, int) and shortest > longest:
        reason = f"it exceeds max.compaction.lag.ms ({longest}); lower the one or raise the other"
        raise InvalidSetting("min.compaction.lag.ms", shortest, reason)
    if effective.get("remote.storage.enable"):
        reason = "Tiered storage is not available in this broker, so a topic cannot use it; leave the setting out"
        raise InvalidSetting("remote.storage.enable", "true", reason)
