"""Partitions of a transaction: added before the first write, and verified with every write (KIP-890)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.transactions.transaction_log import V1, V2, LoggedTransactions

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.records import TopicPartition, TransactionState
from catchment.protocol.errors import ApiError

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def missing(shard: LoggedTransactions, producer: Producer, *partitions: TopicPartition) -> list[TopicPartition]:
    return shard.call(lambda transactions, _: transactions.partitions.missing("x", producer, partitions))


def test_a_transaction_begins_with_its_first_partition_and_grows() -> None:
    shard = LoggedTransactions()
    producer = shard.producer()
    assert shard.add(producer, T1, version=V1) == [ErrorCode.none]
    began_ms = shard.now.wall_ms
    shard.advance(5)
    assert shard.add(producer, U0, T0, T1, version=V1) == [ErrorCode.none]
    transaction = shard.transaction()
    assert (transaction.state, transaction.partitions) == (TransactionState.ONGOING, (T0, T1, U0))
    assert (transaction.start_time_ms, transaction.update_time_ms) == (began_ms, began_ms + 5)


def test_the_response_waits_until_the_partitions_are_committed_even_if_they_were_added_before() -> None:
    shard = LoggedTransactions()
    producer = shard.producer()
    shard.holds_commits = True
    first, again = shard.add(producer, T0), shard.add(producer, T0)
    assert (first, again) == ([], [])
    shard.commit_all()
    assert (first, again) == ([ErrorCode.none], [ErrorCode.none])


def test_only_the_current_producer_may_add() -> None:
    shard = LoggedTransactions()
    producer = shard.producer()
    assert shard.add(producer, T0, transactional_id="y") == [ErrorCode.invalid_producer_id_mapping]
    assert shard.add(producer._replace(producer_id=7), T0) == [ErrorCode.invalid_producer_id_mapping]
    assert shard.add(producer._replace(epoch=1), T0) == [ErrorCode.producer_fenced]
    assert shard.transaction().state is TransactionState.EMPTY


def test_partitions_that_were_not_added_are_missing() -> None:
    shard = LoggedTransactions()
    producer = shard.producer()
    shard.add(producer, T0)
    assert missing(shard, producer, T0, T1, U0) == [T1, U0]


def test_the_partitions_of_a_transaction_that_has_ended_are_missing_from_the_next() -> None:
    shard = LoggedTransactions()
    producer = shard.producer()
    shard.add(producer, T0, version=V1)
    shard.end(producer, version=V1)
    shard.deliver_all()
    assert missing(shard, producer, T0) == [T0]


@pytest.mark.parametrize("version", [V1, V2])
def test_verification_fails_for_a_producer_whose_transaction_has_ended(version: int) -> None:
    shard = LoggedTransactions()
    producer = shard.producer()
    shard.add(producer, T0, version=version)
    shard.end(producer, version=version)
    with pytest.raises(ApiError) as refused:
        missing(shard, producer, T0)
    expected = ErrorCode.concurrent_transactions if version == V1 else ErrorCode.producer_fenced
    assert refused.value.code is expected
