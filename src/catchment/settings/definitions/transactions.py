"""The settings of a broker that transactions obey."""

from __future__ import annotations

from typing import Final

from catchment.settings.setting import Bounds, Kind, Setting, UpdateMode

TRANSACTION_SETTINGS: Final = [
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        Kind.INT,
        100,
        "How long the first request of a transaction waits for the producer's last one to be completed. After that the client "
        "has to come again.",
        Bounds(0),
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind.INT,
        10_000,
        "How often the transaction coordinator looks for transactions that have taken longer than their producers said.",
        Bounds(1),
    ),
    Setting(
        "transaction.max.timeout.ms",
        Kind.INT,
        900_000,
        "The longest time a producer may ask for as its `transaction.timeout.ms`. Readers of committed data wait that long for a "
        "producer that has died.",
        Bounds(1),
    ),
    Setting(
        "transaction.partition.verification.enable",
        Kind.BOOLEAN,
        True,
        "Whether a partition asks the transaction coordinator before the first record of a transaction is written to it. Without, "
        "a late request may open a transaction that nobody ends.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind.INT,
        3_600_000,
        "How often the transaction coordinator looks for transactional ids to forget.",
        Bounds(1),
    ),
    Setting(
        "transaction.state.log.min.isr",
        Kind.INT,
        2,
        "The `min.insync.replicas` of `__transaction_state`, but no more than it has replicas when it is made.",
        Bounds(1),
    ),
    Setting(
        "transaction.state.log.num.partitions",
        Kind.INT,
        50,
        "Partitions of `__transaction_state`. The topic is made when the first transactional producer asks for its coordinator, and "
        "must not grow later: producers would look for their transactions in another partition.",
        Bounds(1),
    ),
    Setting(
        "transaction.state.log.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of `__transaction_state`, but no more than there are brokers when it is made.",
        Bounds(1),
    ),
    Setting(
        "transaction.state.log.segment.bytes",
        Kind.INT,
        104_857_600,
        "Segment size of `__transaction_state`: small enough that compaction keeps loading short.",
        Bounds(1),
    ),
    Setting(
        "transactional.id.expiration.ms",
        Kind.INT,
        604_800_000,
        "How long a transactional id is remembered after its last transaction.",
        Bounds(1),
    ),
]
