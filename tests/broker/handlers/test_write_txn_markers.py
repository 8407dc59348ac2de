"""WriteTxnMarkers and DescribeProducers over the wire: which markers are taken, and what a partition then knows."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName
from kio.schema.write_txn_markers.v2.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.static.primitive import i8, i16, i32
from tests.broker.handlers.group_requests import find_coordinator, offsets
from tests.broker.handlers.log_requests import list_offset
from tests.broker.handlers.transactional_producer import V2, TransactionalProducer, Versions
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

LATEST = -1


def write_marker(
    wire: Wire,
    producer_id: int,
    epoch: int,
    *,
    topic: str = "a",
    partitions: tuple[int, ...] = (0,),
    is_commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    version: int = 2,
) -> list[ErrorCode]:
    """The outcome for each partition."""
    topics = (WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=tuple(i32(one) for one in partitions)),)
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
        transaction_result=is_commit,
        topics=topics,
        coordinator_epoch=i32(coordinator_epoch),
        transaction_version=i8(transaction_version),
    )
    (answer,) = wire.ask(WriteTxnMarkersRequest(markers=(marker,)), version).markers
    assert answer.producer_id == producer_id
    return [partition.error_code for partition in answer.topics[0].partitions]


def describe(wire: Wire, topic: str = "a", partition: int = 0) -> Any:
    request = DescribeProducersRequest(
        topics=(TopicRequest(name=TopicName(topic), partition_indexes=(i32(partition),)),)
    )
    return wire.ask(request, 0).topics[0].partitions[0]


@pytest.fixture
def producer(broker: Broker, wire: Wire) -> TransactionalProducer:
    broker.create_topic("a", 2)
    made = TransactionalProducer(wire, V2)
    made.begin_life()
    return made


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_ends_the_transaction_on_each_partition(
    wire: Wire, producer: TransactionalProducer, version: int, is_commit: bool
) -> None:
    producer.write("a", b"x", b"y")
    (before,) = describe(wire).active_producers
    assert (before.producer_id, before.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (before.last_sequence, before.current_txn_start_offset, before.coordinator_epoch) == (1, 0, -1)
    assert before.last_timestamp > 0
    assert write_marker(
        wire,
        producer.producer_id,
        producer.epoch,
        partitions=(0, 1, 2),
        is_commit=is_commit,
        coordinator_epoch=5,
        version=version,
    ) == [ErrorCode.none, ErrorCode.none, ErrorCode.unknown_topic_or_partition]
    (after,) = describe(wire).active_producers
    assert (after.current_txn_start_offset, after.coordinator_epoch) == (-1, 5)
    assert list_offset(wire, "a", LATEST).offset == 3


def test_a_marker_of_an_older_epoch_or_of_a_deposed_coordinator_is_rejected(
    wire: Wire, producer: TransactionalProducer
) -> None:
    producer_id = producer.producer_id
    assert write_marker(wire, producer_id, 7, coordinator_epoch=3) == [ErrorCode.none]
    assert write_marker(wire, producer_id, 6, coordinator_epoch=3) == [ErrorCode.invalid_producer_epoch]
    assert write_marker(wire, producer_id, 7, coordinator_epoch=2) == [ErrorCode.transaction_coordinator_fenced]


def test_with_transactions_v2_a_marker_must_be_above_the_records_epoch_but_may_be_repeated(
    wire: Wire, producer: TransactionalProducer
) -> None:
    producer.write("a", b"x")
    producer_id, epoch = producer.producer_id, producer.epoch
    late = write_marker(wire, producer_id, epoch, transaction_version=2)
    assert late == [ErrorCode.invalid_producer_epoch]
    assert write_marker(wire, producer_id, epoch + 1, transaction_version=2) == [ErrorCode.none]
    assert write_marker(wire, producer_id, epoch + 1, transaction_version=2) == [ErrorCode.none]


def test_a_marker_at_the_group_coordinator_ends_pending_offsets(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    find_coordinator(wire)
    producer = TransactionalProducer(wire, Versions(11, 4, 4))
    producer.begin_life()
    producer.add_group()
    producer.commit_offset(9)
    (pending,) = describe(wire, "__consumer_offsets").active_producers
    assert pending.current_txn_start_offset >= 0
    outcome = write_marker(wire, producer.producer_id, producer.epoch, topic="__consumer_offsets", is_commit=True)
    assert outcome == [ErrorCode.none]
    (ended,) = describe(wire, "__consumer_offsets").active_producers
    assert ended.current_txn_start_offset == -1
    assert offsets(wire, "a") == [9, -1]


def test_a_partition_that_is_not_there_has_no_producers(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert describe(wire, partition=3).error_code is ErrorCode.unknown_topic_or_partition
    assert describe(wire, "none").error_code is ErrorCode.unknown_topic_or_partition
    found = describe(wire)
    assert (found.error_code, found.active_producers) == (ErrorCode.none, ())
