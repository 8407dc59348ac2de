"""Unused transactional ids expire, and only those."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.transactions.transaction_log import LoggedTransactions

from catchment.coordination.transactions.commands import ProducerResponse, TransactionLimits
from catchment.protocol.errors import ApiError

LIMITS = TransactionLimits(expiration_ms=1000)


def expire(shard: LoggedTransactions) -> None:
    shard.call(lambda transactions, now: transactions.queries.expire(now))


def known(shard: LoggedTransactions) -> list[str]:
    return shard.call(lambda transactions, _: [name for name, _ in transactions.queries.listing()])


def test_an_unused_id_expires_and_can_be_used_again() -> None:
    shard = LoggedTransactions(LIMITS)
    producer = shard.producer()
    shard.advance(999)
    expire(shard)
    assert known(shard) == ["x"]
    shard.advance(1)
    expire(shard)
    assert known(shard) == []
    assert shard.end(producer) == [ProducerResponse(ErrorCode.invalid_producer_id_mapping)]
    assert shard.producer() != producer
    shard.crash()
    assert known(shard) == ["x"]


def test_an_id_with_an_ongoing_transaction_does_not_expire() -> None:
    shard = LoggedTransactions(LIMITS)
    producer = shard.producer()
    shard.add(producer, ("t", 0))
    shard.advance(5000)
    expire(shard)
    shard.end(producer)
    shard.advance(5000)
    expire(shard)
    assert known(shard) == ["x"]
    shard.deliver_all()
    shard.advance(5000)
    expire(shard)
    assert known(shard) == []


def test_many_long_ids_expire_in_several_writes() -> None:
    shard = LoggedTransactions(LIMITS)
    for number in range(100):
        shard.producer(f"{number:030000}")
    shard.advance(5000)
    shard.holds_commits = True
    expire(shard)
    assert known(shard) == []
    assert len(shard.pending) > 1
    assert all(sum(len(key) for key, _ in write.records) < 500_000 for write in shard.pending)


def test_an_unknown_id_cannot_be_described() -> None:
    shard = LoggedTransactions()
    with pytest.raises(ApiError) as refused:
        shard.call(lambda transactions, _: transactions.queries.describe("x"))
    assert refused.value.code is ErrorCode.transactional_id_not_found
