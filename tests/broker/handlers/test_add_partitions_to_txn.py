"""AddPartitionsToTxn and AddOffsetsToTxn over the wire; the responses are those of Apache Kafka 4.3.1 to the same requests."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from tests.broker.handlers.transaction_requests import TransactionWire
from tests.broker.handlers.wire import Wire

from catchment.coordination.coordinator_shard import Producer
from catchment.testing.embedded import Broker

NONE, UNKNOWN = ErrorCode.none, ErrorCode.unknown_topic_or_partition
NOT_ATTEMPTED, ABORTABLE = ErrorCode.operation_not_attempted, ErrorCode.transaction_abortable


@pytest.fixture
def transactions(broker: Broker, wire: Wire) -> TransactionWire:
    broker.create_topic("t", 2)
    return TransactionWire(wire)


def partitions_of(transactions: TransactionWire) -> dict[TopicName, tuple[int, ...]]:
    return {topic.topic: topic.partitions for topic in transactions.describe().topics}


@pytest.mark.parametrize("version", range(6))
def test_partitions_become_part_of_the_transaction(transactions: TransactionWire, version: int) -> None:
    producer = transactions.begin()
    assert transactions.add(producer, {"t": [1, 0]}, version) == {("t", 0): NONE, ("t", 1): NONE}
    assert transactions.describe().transaction_state == "Ongoing"
    assert partitions_of(transactions) == {"t": (0, 1)}


def test_none_is_added_if_one_does_not_exist(transactions: TransactionWire) -> None:
    producer = transactions.begin()
    assert transactions.add(producer, {"t": [0, 9], "nope": [0]}) == {
        ("t", 0): NOT_ATTEMPTED,
        ("t", 9): UNKNOWN,
        ("nope", 0): UNKNOWN,
    }
    assert transactions.describe().transaction_state == "Empty"


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.invalid_producer_epoch), (2, ErrorCode.producer_fenced)])
def test_an_older_epoch_is_fenced_with_the_code_of_its_version(
    transactions: TransactionWire, version: int, code: ErrorCode
) -> None:
    old = transactions.begin()
    transactions.begin()
    assert transactions.add(old, {"t": [0]}, version) == {("t", 0): code}
    assert transactions.add_offsets(old, version) is code


def test_verifying_adds_nothing(transactions: TransactionWire) -> None:
    producer = transactions.begin()
    transactions.add(producer, {"t": [0]})
    verified = transactions.add(producer, {"t": [0, 1]}, 5, verify_only=True)
    assert verified == {("t", 0): NONE, ("t", 1): ABORTABLE}
    assert partitions_of(transactions) == {"t": (0,)}


def test_the_partition_that_stores_a_group_becomes_part_of_the_transaction(transactions: TransactionWire) -> None:
    producer = transactions.begin()
    assert transactions.add_offsets(producer) is NONE
    assert partitions_of(transactions) == {"__consumer_offsets": (0,)}


def test_an_unknown_id_is_not_mapped_to_any_producer(transactions: TransactionWire) -> None:
    unknown = Producer(5, 0)
    assert transactions.add(unknown, {"t": [0]}) == {("t", 0): ErrorCode.invalid_producer_id_mapping}
    assert transactions.add_offsets(unknown) is ErrorCode.invalid_producer_id_mapping
    verified = transactions.add(unknown, {"t": [0]}, 5, verify_only=True)
    assert verified == {("t", 0): ErrorCode.invalid_producer_id_mapping}
