"""The outcome of transactions: which are open, and whether one that has ended was committed.

The coordinator does not always know: a transactional id may have been used again since, or have expired. The log knows. An
offset that a transaction wrote to is its witness: once the last stable offset has passed it, a committed read either finds
the record or does not, and that never changes.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.static.primitive import i64

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, TimedOut, raise_for
from catchment.client.network.brokers import Target
from catchment.client.offsets import LATEST
from catchment.client.reader import OffsetOutOfRange, Reader, Span

_ONGOING: Final = "Ongoing"
_ANY_AGE: Final = i64(-1)


class Outcome(Enum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Retention, compaction or the deletion of the topic has removed the witness."""


class Witness(NamedTuple):
    """One record that a transaction wrote. The topic id distinguishes the topic from a later one of the same name."""

    topic: str
    topic_id: str
    partition: int
    offset: int


def outcome_of(cluster: Cluster, witness: Witness) -> Outcome:
    """Whether the transaction that wrote a record was committed. Raises TimedOut if it, or one before it, stays open."""
    try:
        cluster.refresh([witness.topic])
    except BrokerError as error:
        if error.code is not ErrorCode.unknown_topic_or_partition:
            raise
        return Outcome.UNKNOWN
    if str(cluster.topic_id(witness.topic)) != witness.topic_id:
        return Outcome.UNKNOWN
    if not _becomes_stable(cluster, witness):
        return Outcome.UNKNOWN
    if _is_found(cluster, witness, read_committed=True):
        return Outcome.COMMITTED
    return Outcome.ABORTED if _is_found(cluster, witness, read_committed=False) else Outcome.UNKNOWN


def ongoing_transactions(cluster: Cluster, prefix: str) -> list[str]:
    """The transactional ids with this prefix that have an open transaction."""
    request = ListTransactionsRequest(
        state_filters=(_ONGOING,), producer_id_filters=(), duration_filter=_ANY_AGE, transactional_id_pattern=None
    )
    brokers: list[Target] = list(cluster.broker_ids())
    found: list[str] = []
    for broker_id, response in zip(
        brokers, cluster.ask_together([(request, broker_id) for broker_id in brokers]), strict=True
    ):
        heard = cluster.ask(request, to=broker_id) if response is None else response
        raise_for(heard.error_code, f"cannot list the transactions of broker {broker_id}")
        found += [one.transactional_id for one in heard.transaction_states if one.transactional_id.startswith(prefix)]
    return sorted(found)


def _becomes_stable(cluster: Cluster, witness: Witness) -> bool:
    """Wait until no open transaction is left at or before the witness; False if the log ends before it."""
    topic_partition = (witness.topic, witness.partition)
    backoff = cluster.backoff(cluster.deadline())
    while (
        cluster.list_offsets([topic_partition], LATEST, read_committed=True)[topic_partition].offset <= witness.offset
    ):
        if cluster.list_offsets([topic_partition], LATEST)[topic_partition].offset <= witness.offset:
            # An unclean leader election has truncated the log.
            return False
        if not backoff.pause():
            raise TimedOut(
                f"partition {witness.partition} of topic {witness.topic} has an open transaction at or before offset "
                f"{witness.offset}, so it is unknown whether the record there was committed",
                "`catchment transaction list --state Ongoing` shows the transaction; it ends with its timeout at the latest.",
            )
    return True


def _is_found(cluster: Cluster, witness: Witness, *, read_committed: bool) -> bool:
    span = Span(witness.topic, witness.partition, witness.offset, witness.offset + 1)
    try:
        with Reader(cluster, [span], columns=["offset"], read_committed=read_committed) as reader:
            return any(read.batch.num_rows for read in reader)
    except OffsetOutOfRange:
        return False
