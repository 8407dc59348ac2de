"""The topic settings, and the broker setting that holds the default of each.

All topic settings of Kafka 4.3 are defined, including those of features that Catchment does not have (tiered storage,
replication throttles), so that a topic can be created with the same settings as in Kafka. The documentation says where a
setting has no effect.
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
            "Delete records once they are consumed: the groups that must all have committed past a record before it is deleted, or * for "
            "every group that has committed an offset of the topic or subscribes to it. Nothing is deleted while one of these groups "
            "has committed nothing, or while there is none. The other limits apply as well. Needs a `cleanup.policy` with delete.",
        ),
        Setting(
            "catchment.retention.messages",
            Kind.LONG,
            -1,
            "How many of the newest records a partition keeps; older segments are deleted once the rest has at least this many. "
            "-1 means no limit. Needs a `cleanup.policy` with delete.",
            Bounds(-1),
        ),
        Setting(
            "catchment.sync.acks",
            Kind.BOOLEAN,
            True,
            "Whether a record that only one replica has is synced to the device before `acks=all` is acknowledged. With false, "
            "acknowledged records are in the page cache until the kernel writes them: they survive the end of the process, but not "
            "a power loss.",
        ),
        Setting(
            "cleanup.policy",
            Kind.LIST,
            ("delete",),
            "What happens to old segments: delete removes them when a retention limit is exceeded, compact keeps the last record of each "
            "key. Both may be given. An empty list keeps everything.",
            Choices(("compact", "delete")),
        ),
        Setting(
            "compression.gzip.level",
            Kind.INT,
            -1,
            "Level used when the broker itself compresses with gzip; -1 is the library's default.",
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
            "Codec of the stored batches. With producer, every batch is stored as it was sent, which costs nothing; with any other "
            "codec, the broker recompresses batches that were sent with another one.",
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
            "How long a compacted topic keeps a tombstone, so that a consumer that lags behind still sees the deletion.",
            Bounds(0),
        ),
        Setting(
            "file.delete.delay.ms",
            Kind.LONG,
            60_000,
            "How long the files of a deleted segment stay on disk with the suffix .deleted.",
            Bounds(0),
        ),
        Setting(
            "flush.messages",
            Kind.LONG,
            _FOREVER,
            "Sync the log to the device after this many records. The default leaves it to `catchment.sync.acks` and the kernel.",
            Bounds(1),
        ),
        Setting(
            "flush.ms",
            Kind.LONG,
            _FOREVER,
            "Sync the log to the device when its oldest unsynced record is this old.",
            Bounds(0),
        ),
        Setting(
            "follower.replication.throttled.replicas",
            Kind.LIST,
            (),
            f"Replicas whose replication is throttled on the follower. {_NO_THROTTLE}",
            _REPLICA_LIST,
        ),
        Setting(
            "index.interval.bytes",
            Kind.INT,
            4096,
            "Bytes of log between two entries of the offset index: a smaller interval makes lookups faster and the index larger.",
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
            f"Replicas whose replication is throttled on the leader. {_NO_THROTTLE}",
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
            "The largest record batch that is accepted, after compression. A larger one is rejected with RECORD_TOO_LARGE.",
            Bounds(0),
        ),
        Setting(
            "message.timestamp.after.max.ms",
            Kind.LONG,
            3_600_000,
            "How far a record's timestamp may be ahead of the broker's clock. Has no effect with LogAppendTime.",
            Bounds(0),
        ),
        Setting(
            "message.timestamp.before.max.ms",
            Kind.LONG,
            _FOREVER,
            "How far a record's timestamp may be behind the broker's clock. Has no effect with LogAppendTime.",
            Bounds(0),
        ),
        Setting(
            "message.timestamp.type",
            Kind.STRING,
            "CreateTime",
            "The timestamp of a record: CreateTime is set by the producer, LogAppendTime by the broker when it appends the record.",
            Choices(("CreateTime", "LogAppendTime")),
        ),
        Setting(
            "min.cleanable.dirty.ratio",
            Kind.DOUBLE,
            0.5,
            "The ratio of uncompacted bytes in a log at which compaction starts.",
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
            "How many replicas must be in sync for a write with `acks=all`; with fewer it is rejected with NOT_ENOUGH_REPLICAS.",
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
            "How large a partition may grow before its oldest segments are deleted; -1 means no limit. "
            "Needs a `cleanup.policy` with delete.",
        ),
        Setting(
            "retention.ms",
            Kind.LONG,
            7 * _DAY_MS,
            "How long records are kept before their segment is deleted; -1 keeps them forever. "
            "Needs a `cleanup.policy` with delete.",
            Bounds(-1),
        ),
        Setting(
            "segment.bytes",
            Kind.INT,
            1 << 30,
            "Size at which the log rolls to a new segment. Retention and compaction work on whole segments.",
            Bounds(SMALLEST_SEGMENT_BYTES),
        ),
        Setting(
            "segment.index.bytes",
            Kind.INT,
            10 << 20,
            "Largest size of a segment's index; a full index rolls the log to a new segment.",
            Bounds(4),
        ),
        Setting(
            "segment.jitter.ms",
            Kind.LONG,
            0,
            "The largest random time that is subtracted from `segment.ms`, so that many partitions do not roll at once.",
            Bounds(0),
        ),
        Setting(
            "segment.ms",
            Kind.LONG,
            7 * _DAY_MS,
            "Age at which the log rolls to a new segment even if the old one is not full, so that retention can delete it.",
            Bounds(1),
        ),
        Setting(
            "unclean.leader.election.enable",
            Kind.BOOLEAN,
            False,
            "Whether a replica that is not in sync may become leader when no other is left. Acknowledged records are lost then.",
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
    """Raise InvalidSetting for topic settings that are unknown, malformed, out of bounds or contradict each other.

    `defaults` are the effective values of the topic settings that `overrides` leaves out.
    """
    effective: dict[str, Value] = dict(defaults or {})
    effective.update({name: TOPIC_SETTINGS.require(name).parse(text) for name, text in overrides.items()})
    shortest, longest = effective.get("min.compaction.lag.ms", 0), effective.get("max.compaction.lag.ms", _FOREVER)
    if isinstance(shortest, int) and isinstance(longest, int) and shortest > longest:
        reason = f"it exceeds max.compaction.lag.ms ({longest}); lower one or raise the other"
        raise InvalidSetting("min.compaction.lag.ms", shortest, reason)
    if effective.get("remote.storage.enable"):
        reason = "Tiered storage is not available in this broker, so a topic cannot use it; leave the setting out"
        raise InvalidSetting("remote.storage.enable", "true", reason)
