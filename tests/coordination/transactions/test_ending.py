"""EndTxn: one decision for each transaction, a marker for every partition, and the same response to a repeated request."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.transactions.transaction_log import TIMEOUT_MS, V1, V2, LoggedTransactions

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.commands import LAST_EPOCH, MarkersToWrite, ProducerResponse
from catchment.coordination.transactions.records import TransactionState

FENCED = [ProducerResponse(ErrorCode.producer_fenced)]
BUSY = [ProducerResponse(ErrorCode.concurrent_transactions)]
WRONG_STATE = [ProducerResponse(ErrorCode.invalid_txn_state)]
NOT_MAPPED = [ProducerResponse(ErrorCode.invalid_producer_id_mapping)]
T0, T1 = ("t", 0), ("t", 1)


def granted(producer_id: int, epoch: int) -> list[ProducerResponse]:
    return [ProducerResponse(ErrorCode.none, Producer(producer_id, epoch))]


def with_open_transaction(version: int = V2) -> tuple[LoggedTransactions, Producer]:
    shard = LoggedTransactions()
    producer = shard.producer()
    assert shard.add(producer, T1, T0, version=version) == [ErrorCode.none]
    return shard, producer


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [V1, V2])
def test_markers_are_sent_and_then_the_transaction_is_complete(version: int, is_commit: bool) -> None:
    shard, producer = with_open_transaction(version)
    epoch = producer.epoch + (version == V2)
    assert shard.end(producer, is_commit=is_commit, version=version) == granted(1000, epoch)
    assert shard.transaction().state.is_decided
    assert shard.markers == [MarkersToWrite("x", Producer(1000, epoch), is_commit, version, (T0, T1))]
    shard.deliver_all()
    expected = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    assert (shard.transaction().state, shard.transaction().partitions) == (expected, ())
    assert shard.transaction().producer_epoch == epoch


def test_the_response_and_the_markers_wait_until_the_decision_is_committed() -> None:
    shard, producer = with_open_transaction()
    shard.holds_commits = True
    answers = shard.end(producer)
    assert (answers, shard.markers) == ([], [])
    shard.commit_all()
    assert answers == granted(1000, 1)
    assert len(shard.markers) == 1


def test_other_requests_wait_while_markers_are_being_written() -> None:
    shard, producer = with_open_transaction(V1)
    shard.end(producer, version=V1)
    assert shard.add(producer, T0) == [ErrorCode.concurrent_transactions]
    assert shard.end(producer, version=V1) == BUSY
    assert shard.end(producer, is_commit=False, version=V1) == BUSY
    assert shard.init() == BUSY
    shard.deliver_all()
    assert shard.add(producer, T0) == [ErrorCode.none]


def test_without_a_bump_a_repeated_end_gets_the_same_response_and_the_opposite_is_rejected() -> None:
    shard, producer = with_open_transaction(V1)
    shard.end(producer, is_commit=False, version=V1)
    shard.deliver_all()
    assert shard.end(producer, is_commit=False, version=V1)[0].error is ErrorCode.none
    assert shard.end(producer, version=V1) == WRONG_STATE


def test_with_a_bump_the_previous_epoch_identifies_a_repeated_end() -> None:
    shard, producer = with_open_transaction()
    (answer,) = shard.end(producer)
    assert shard.end(producer) == BUSY
    assert shard.end(producer, is_commit=False) == BUSY
    assert shard.end(answer.producer) == BUSY
    shard.deliver_all()
    assert shard.end(producer) == [answer]
    assert shard.end(producer, is_commit=False) == WRONG_STATE
    assert shard.end(answer.producer) == WRONG_STATE
    assert shard.end(answer.producer, is_commit=False) == granted(1000, 2)
    assert shard.end(producer) == FENCED


def test_with_a_bump_a_producer_may_abort_without_a_transaction() -> None:
    shard = LoggedTransactions()
    producer = shard.producer()
    assert shard.end(producer) == WRONG_STATE
    assert shard.end(producer, is_commit=False) == granted(1000, 1)
    assert shard.transaction().state is TransactionState.COMPLETE_ABORT
    assert shard.markers == []


@pytest.mark.parametrize("is_commit", [True, False])
def test_without_a_bump_there_is_nothing_to_end_before_the_first_partition(is_commit: bool) -> None:
    shard = LoggedTransactions()
    assert shard.end(shard.producer(), is_commit=is_commit, version=V1) == WRONG_STATE


@pytest.mark.parametrize("version", [V1, V2])
def test_only_the_current_producer_may_end_a_transaction(version: int) -> None:
    shard, producer = with_open_transaction(version)
    assert shard.end(producer._replace(producer_id=7), version=version) == NOT_MAPPED
    assert shard.end(producer._replace(epoch=producer.epoch + 1), version=version) == FENCED
    assert shard.end(producer._replace(epoch=producer.epoch - 1), version=version) == FENCED
    assert shard.end(producer, "y", version=version) == NOT_MAPPED
    assert shard.end(producer, "", version=version) == [ProducerResponse(ErrorCode.invalid_request)]


def test_the_end_of_a_client_without_bumps_is_not_mistaken_for_a_repetition() -> None:
    shard = LoggedTransactions()
    old = shard.producer()
    new = shard.producer()
    shard.add(new, T0, version=V1)
    shard.end(new, version=V1)
    shard.deliver_all()
    assert shard.end(old, version=V2) == FENCED


def test_the_last_epoch_ends_with_a_new_producer_id_and_may_be_repeated() -> None:
    shard = LoggedTransactions()
    producer = shard.producer(epoch=LAST_EPOCH)
    shard.add(producer, T0)
    assert shard.end(producer) == granted(1001, 0)
    (markers,) = shard.deliver_all()
    assert markers.producer == Producer(1000, LAST_EPOCH + 1)
    assert shard.end(producer) == granted(1001, 0)
    assert shard.end(producer, is_commit=False) == WRONG_STATE
    assert shard.add(Producer(1001, 0), T0) == [ErrorCode.none]
    assert shard.end(producer) == NOT_MAPPED


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_transaction_may_begin_and_be_aborted_while_the_markers_of_the_last_are_written(
    is_commit: bool,
) -> None:
    shard, producer = with_open_transaction()
    (answer,) = shard.end(producer, is_commit=is_commit)
    assert shard.end(answer.producer, is_commit=False) == BUSY
    assert shard.add(answer.producer, T0) == [ErrorCode.concurrent_transactions]
    shard.deliver_all()
    assert shard.end(answer.producer, is_commit=False) == granted(1000, 2)


def test_a_producer_continues_with_its_new_id_once_the_markers_of_the_old_one_are_written() -> None:
    shard = LoggedTransactions()
    exhausted = shard.producer(epoch=LAST_EPOCH)
    shard.add(exhausted, T0)
    (answer,) = shard.end(exhausted)
    assert shard.add(answer.producer, T0) == [ErrorCode.concurrent_transactions]
    assert shard.end(answer.producer, is_commit=False) == BUSY
    assert shard.end(exhausted) == BUSY
    assert shard.init(expected=answer.producer) == BUSY
    shard.deliver_all()
    assert shard.add(answer.producer, T0) == [ErrorCode.none]


def test_a_transaction_with_the_highest_epoch_can_still_be_aborted() -> None:
    shard = LoggedTransactions()
    producer = shard.producer(epoch=LAST_EPOCH + 1)
    shard.add(producer, T0, version=V1)
    assert shard.init() == BUSY
    (markers,) = shard.deliver_all()
    assert markers.producer == producer
    assert shard.transaction().producer_epoch == 0


def test_markers_of_an_earlier_transaction_complete_nothing() -> None:
    shard, producer = with_open_transaction()
    (answer,) = shard.end(producer)
    (first,) = shard.deliver_all()
    shard.add(answer.producer, T0)
    shard.end(answer.producer)
    shard.deliver(first)
    assert shard.transaction().state is TransactionState.PREPARE_COMMIT


def test_a_prepared_transaction_is_resumed_after_a_replay() -> None:
    shard, producer = with_open_transaction()
    shard.end(producer)
    sent = shard.markers
    shard.crash()
    assert shard.markers == sent
    shard.deliver_all()
    assert shard.transaction().state is TransactionState.COMPLETE_COMMIT


def test_a_decision_whose_write_timed_out_is_completed_nevertheless() -> None:
    shard, producer = with_open_transaction()
    shard.holds_commits = True
    answers = shard.end(producer)
    shard.fail_all(ErrorCode.coordinator_not_available)
    assert answers == [ProducerResponse(ErrorCode.coordinator_not_available)]
    shard.advance(1000)
    assert shard.markers == []
    shard.commit_all()
    assert len(shard.deliver_all()) == 1


def test_waiting_callers_are_woken_when_the_transaction_is_complete() -> None:
    shard, producer = with_open_transaction()
    woken: list[str] = []
    shard.call(lambda transactions, _: transactions.ending.when_completed("x", lambda: woken.append("at once")))
    shard.end(producer)
    shard.call(lambda transactions, _: transactions.ending.when_completed("x", lambda: woken.append("later")))
    assert woken == ["at once"]
    shard.deliver_all()
    assert woken == ["at once", "later"]


def test_callers_that_stopped_waiting_are_not_woken() -> None:
    shard, producer = with_open_transaction()
    woken: list[bool] = []

    def wake() -> None:
        woken.append(True)

    shard.end(producer)
    shard.call(lambda transactions, _: transactions.ending.when_completed("x", wake))
    for _ in range(2):
        shard.call(lambda transactions, _: transactions.ending.stop_waiting("x", wake))
    shard.deliver_all()
    assert woken == []


def test_waiting_callers_are_woken_when_the_shard_is_closed() -> None:
    shard, producer = with_open_transaction()
    woken: list[bool] = []
    shard.end(producer)
    shard.call(lambda transactions, _: transactions.ending.when_completed("x", lambda: woken.append(True)))
    shard.crash()
    assert woken == [True]


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    shard, producer = with_open_transaction()
    shard.advance(TIMEOUT_MS)
    shard.abort_timed_out()
    assert shard.transaction().state is TransactionState.ONGOING
    shard.advance(1)
    shard.abort_timed_out()
    (markers,) = shard.deliver_all()
    assert (markers.producer, markers.is_commit) == (Producer(1000, 1), False)
    assert shard.add(producer, T0) == [ErrorCode.producer_fenced]
    assert shard.end(producer, version=V1) == FENCED
    assert shard.end(producer, version=V2) == WRONG_STATE
    assert shard.end(producer, is_commit=False, version=V2) == granted(1000, 1)


def test_the_timeout_starts_with_the_first_partition() -> None:
    shard, producer = with_open_transaction()
    shard.advance(TIMEOUT_MS - 1)
    shard.add(producer, ("u", 0))
    shard.advance(2)
    shard.abort_timed_out()
    assert shard.transaction().state is TransactionState.PREPARE_ABORT


def test_a_timed_out_transaction_of_the_last_epoch_is_aborted_too() -> None:
    shard = LoggedTransactions()
    producer = shard.producer(epoch=LAST_EPOCH)
    shard.add(producer, T0)
    shard.advance(TIMEOUT_MS + 1)
    shard.abort_timed_out()
    shard.deliver_all()
    assert (shard.transaction().producer_id, shard.transaction().producer_epoch) == (1001, 0)
