"""EndTxn over the wire; the answers are those of Apache Kafka 4.3.1 to the same requests."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.transaction_requests import NO_PRODUCER, TransactionWire
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

from catchment.coordination.coordinator_shard import Producer
from catchment.testing.embedded import Broker


@pytest.fixture
def transactions(broker: Broker, wire: Wire) -> TransactionWire:
    broker.create_topic("t")
    return TransactionWire(wire)


def open_transaction(transactions: TransactionWire) -> Producer:
    producer = transactions.begin()
    assert transactions.add(producer, {"t": [0]}) == {("t", 0): ErrorCode.none}
    return producer


@pytest.mark.parametrize("version", range(5))
def test_without_an_epoch_bump_the_producer_continues_unchanged(transactions: TransactionWire, version: int) -> None:
    producer = open_transaction(transactions)
    assert transactions.end(producer, version) == (ErrorCode.none, NO_PRODUCER)
    state = transactions.completed()
    assert (state.transaction_state, state.producer_epoch) == ("CompleteCommit", producer.epoch)
    assert transactions.end(producer, version) == (ErrorCode.none, NO_PRODUCER)


def test_with_an_epoch_bump_the_response_has_the_next_epoch(transactions: TransactionWire) -> None:
    producer = open_transaction(transactions)
    assert transactions.end(producer, is_commit=False) == (ErrorCode.none, producer._replace(epoch=1))
    assert transactions.completed().transaction_state == "CompleteAbort"
    assert transactions.end(producer, is_commit=False) == (ErrorCode.none, producer._replace(epoch=1))


def test_a_commit_after_an_abort_is_an_invalid_state(transactions: TransactionWire) -> None:
    producer = open_transaction(transactions)
    transactions.end(producer, 3, is_commit=False)
    transactions.completed()
    assert transactions.end(producer, 3) == (ErrorCode.invalid_txn_state, NO_PRODUCER)


def test_a_replaced_producer_is_fenced_with_the_code_of_its_version(transactions: TransactionWire) -> None:
    producer = open_transaction(transactions)
    transactions.end(producer, 3)
    transactions.begin()
    codes = [transactions.end(producer, version)[0] for version in range(6)]
    assert codes == [ErrorCode.invalid_producer_epoch] * 2 + [ErrorCode.producer_fenced] * 4


def test_an_unknown_id_is_not_mapped_to_any_producer(transactions: TransactionWire) -> None:
    assert transactions.end(Producer(5, 0))[0] is ErrorCode.invalid_producer_id_mapping


def test_a_commit_after_the_brokers_timeout_is_fenced() -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 10}
    with Broker(settings=settings) as broker, Wire(broker) as wire:
        broker.create_topic("t")
        transactions = TransactionWire(wire)
        _, producer = transactions.init(timeout_ms=1)
        transactions.add(producer, {"t": [0]})
        wait_until(lambda: transactions.completed().transaction_state != "Ongoing")
        assert transactions.describe().transaction_state == "CompleteAbort"
        assert transactions.end(producer, 3) == (ErrorCode.producer_fenced, NO_PRODUCER)


def test_a_decision_survives_a_kill_and_is_carried_out_by_the_next_start(broker: Broker) -> None:
    broker.create_topic("t")
    with Wire(broker) as wire:
        transactions = TransactionWire(wire)
        producer = open_transaction(transactions)
        assert transactions.end(producer)[0] is ErrorCode.none
    broker.kill()
    broker.start()
    with Wire(broker) as wire:
        transactions = TransactionWire(wire)
        assert transactions.init_until_answered(producer)[0] is ErrorCode.producer_fenced
        assert transactions.completed().transaction_state == "CompleteCommit"


def test_a_transaction_is_complete_though_its_topic_was_deleted(broker: Broker, transactions: TransactionWire) -> None:
    producer = open_transaction(transactions)
    broker.delete_topic("t")
    transactions.end(producer)
    assert transactions.completed().transaction_state == "CompleteCommit"
