"""InitProducerId: which producer owns a transactional id, and which ones are fenced."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.transactions.transaction_log import TIMEOUT_MS, V1, V2, LoggedTransactions

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.commands import LAST_EPOCH, ProducerResponse, TransactionLimits
from catchment.coordination.transactions.records import TransactionState

FENCED = [ProducerResponse(ErrorCode.producer_fenced)]
BUSY = [ProducerResponse(ErrorCode.concurrent_transactions)]


def granted(producer_id: int, epoch: int) -> list[ProducerResponse]:
    return [ProducerResponse(ErrorCode.none, Producer(producer_id, epoch))]


def test_a_new_id_begins_with_epoch_0_and_each_new_instance_bumps_it() -> None:
    shard = LoggedTransactions()
    assert [shard.init() for _ in range(3)] == [granted(1000, epoch) for epoch in range(3)]
    assert shard.init("other") == granted(1001, 0)


def test_the_response_waits_until_the_epoch_is_committed() -> None:
    shard = LoggedTransactions()
    shard.holds_commits = True
    answers = shard.init()
    assert answers == []
    shard.commit_all()
    assert answers == granted(1000, 0)


def test_a_failed_write_is_answered_with_its_error() -> None:
    shard = LoggedTransactions()
    shard.holds_commits = True
    answers = shard.init()
    shard.fail_all(ErrorCode.coordinator_not_available)
    assert answers == [ProducerResponse(ErrorCode.coordinator_not_available)]


@pytest.mark.parametrize("timeout_ms", [0, -1, 901])
def test_a_timeout_above_the_limit_is_rejected(timeout_ms: int) -> None:
    shard = LoggedTransactions(TransactionLimits(max_timeout_ms=900))
    assert shard.init(timeout_ms=timeout_ms) == [ProducerResponse(ErrorCode.invalid_transaction_timeout)]
    assert shard.init(timeout_ms=900) == granted(1000, 0)


@pytest.mark.parametrize("transactional_id", ["", "x" * 32_001])
def test_an_id_that_no_record_can_hold_is_rejected(transactional_id: str) -> None:
    assert LoggedTransactions().init(transactional_id) == [ProducerResponse(ErrorCode.invalid_request)]


def test_a_producer_that_sends_its_id_gets_the_next_epoch_and_may_repeat_the_request() -> None:
    shard = LoggedTransactions()
    producer = shard.producer()
    assert shard.init(expected=producer) == granted(1000, 1)
    assert shard.init(expected=producer) == granted(1000, 1)


def test_a_replaced_producer_is_fenced() -> None:
    shard = LoggedTransactions()
    old = shard.producer()
    new = shard.producer()
    assert shard.init(expected=old) == FENCED
    assert shard.init(expected=Producer(old.producer_id + 5, new.epoch)) == FENCED
    assert shard.add(old, ("t", 0)) == [ErrorCode.producer_fenced]
    assert shard.add(new, ("t", 0)) == [ErrorCode.none]


def test_a_producer_whose_id_has_expired_gets_a_new_id() -> None:
    assert LoggedTransactions().init(expected=Producer(7, 3)) == granted(1000, 0)


def test_a_new_instance_waits_until_an_open_transaction_is_aborted() -> None:
    shard = LoggedTransactions()
    old = shard.producer()
    shard.add(old, ("t", 0))
    assert shard.init() == BUSY
    assert shard.transaction().state is TransactionState.PREPARE_ABORT
    assert shard.init() == BUSY
    (markers,) = shard.deliver_all()
    assert (markers.producer, markers.is_commit, markers.partitions) == (Producer(1000, 1), False, (("t", 0),))
    assert shard.init() == granted(1000, 2)
    assert shard.end(old, version=V1) == FENCED
    assert shard.end(old, version=V2) == FENCED


def test_when_the_epochs_are_exhausted_a_new_id_follows_and_the_request_may_be_repeated() -> None:
    shard = LoggedTransactions()
    exhausted = shard.producer(epoch=LAST_EPOCH)
    assert shard.init(expected=exhausted) == granted(1001, 0)
    assert shard.init(expected=exhausted) == granted(1001, 0)
    assert shard.init(expected=exhausted._replace(epoch=LAST_EPOCH - 1)) == FENCED


def test_a_new_instance_gets_a_new_id_when_the_epochs_are_exhausted() -> None:
    shard = LoggedTransactions()
    exhausted = shard.producer(epoch=LAST_EPOCH)
    assert shard.init() == granted(1001, 0)
    assert shard.init(expected=exhausted) == FENCED


def test_an_open_transaction_of_the_last_epoch_is_aborted_with_the_reserved_epoch() -> None:
    shard = LoggedTransactions()
    exhausted = shard.producer(epoch=LAST_EPOCH)
    shard.add(exhausted, ("t", 0))
    assert shard.init() == BUSY
    (markers,) = shard.deliver_all()
    assert markers.producer == Producer(1000, LAST_EPOCH + 1)
    assert shard.init() == granted(1001, 1)


def test_the_timeout_is_that_of_the_last_instance() -> None:
    shard = LoggedTransactions()
    shard.producer()
    shard.init(timeout_ms=TIMEOUT_MS // 2)
    assert shard.transaction().timeout_ms == TIMEOUT_MS // 2
