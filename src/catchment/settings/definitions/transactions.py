"""The broker settings of the transaction coordinator."""

from __future__ import annotations

from typing import Final

from catchment.settings.setting import Bounds, Kind, Setting, UpdateMode

TRANSACTION_SETTINGS: Final = [
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        Kind.INT,
        100,
        "How long the first request of a transaction waits for the producer's previous one to complete. After that the client has "
        "to retry.",
        Bounds(0),
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind.INT,
        10_000,
        "How often the transaction coordinator checks for transactions that have exceeded their timeout.",
        Bounds(1),
    ),
    Setting(
        "transaction.max.timeout.ms",
        Kind.INT,
        900_000,
        "The largest `transaction.timeout.ms` that a producer may request. Consumers of committed records wait that long for a "
        "producer that has crashed.",
        Bounds(1),
    ),
    Setting(
        "transaction.partition.verification.enable",
        Kind.BOOLEAN,
        True,
        "Whether a partition verifies with the transaction coordinator that a transaction is open before its first record is "
        "written. Without it, a late request may open a transaction that is never ended.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind.INT,
        3_600_000,
        "How often the transaction coordinator checks for expired transactional ids.",
        Bounds(1),
    ),
    Setting(
        "transaction.state.log.min.isr",
        Kind.INT,
        2,
        "The `min.insync.replicas` of `__transaction_state`, but no more than it has replicas when it is created.",
        Bounds(1),
    ),
    Setting(
        "transaction.state.log.num.partitions",
        Kind.INT,
        50,
        "Partitions of `__transaction_state`. The topic is created when the first transactional producer looks for its coordinator, "
        "and must not get more partitions later: producers would look for their transactions in another one.",
        Bounds(1),
    ),
    Setting(
        "transaction.state.log.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of `__transaction_state`, but no more than there are brokers when it is created.",
        Bounds(1),
    ),
    Setting(
        "transaction.state.log.segment.bytes",
        Kind.INT,
        104_857_600,
        "Segment size of `__transaction_state`: small, so that compaction keeps loading short.",
        Bounds(1),
    ),
    Setting(
        "transactional.id.expiration.ms",
        Kind.INT,
        604_800_000,
        "How long the state of a transactional id is kept after its last transaction.",
        Bounds(1),
    ),
]
