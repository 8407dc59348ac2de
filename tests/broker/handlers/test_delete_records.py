"""DeleteRecords over the wire: the new start, its limits, and that no restart brings deleted records back."""

from datetime import timedelta
from random import Random

import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64
from tests.broker.handlers.wire import Wire, produce

from catchment.testing.embedded import Broker

TIMEOUT = i32Timedelta.parse(timedelta(seconds=5))
EARLIEST = -2


def delete(wire: Wire, topic: str, *offsets: tuple[int, int], version: int = 2) -> list[tuple[int, int, ErrorCode]]:
    """Partition, new start and error for each (partition, offset)."""
    partitions = tuple(
        DeleteRecordsPartition(partition_index=i32(number), offset=i64(offset)) for number, offset in offsets
    )
    topics = (DeleteRecordsTopic(name=TopicName(topic), partitions=partitions),)
    (answered,) = wire.ask(DeleteRecordsRequest(topics=topics, timeout=TIMEOUT), version).topics
    return [(result.partition_index, result.low_watermark, result.error_code) for result in answered.partitions]


def earliest_offset(wire: Wire, topic: str) -> int:
    partition = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(EARLIEST))
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(partition,)),),
        timeout=TIMEOUT,
    )
    offset = wire.ask(request, 11).topics[0].partitions[0].offset
    assert isinstance(offset, int)
    return offset


@pytest.mark.parametrize("version", range(3))
def test_the_log_start_advances_and_never_goes_back(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a")
    produce(broker, "a", [b"%d" % number for number in range(10)])
    assert delete(wire, "a", (0, 4), version=version) == [(0, 4, ErrorCode.none)]
    assert delete(wire, "a", (0, 2), version=version) == [(0, 4, ErrorCode.none)]
    assert earliest_offset(wire, "a") == 4


def test_minus_one_deletes_everything_up_to_the_high_watermark(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    produce(broker, "a", [b"x"] * 7)
    assert delete(wire, "a", (0, -1)) == [(0, 7, ErrorCode.none)]


def test_each_partition_fails_alone(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    produce(broker, "a", [b"x"] * 3)
    assert delete(wire, "a", (0, 4), (1, 0), (9, 0), (0, -2)) == [
        (0, -1, ErrorCode.offset_out_of_range),
        (1, 0, ErrorCode.none),
        (9, -1, ErrorCode.unknown_topic_or_partition),
        (0, -1, ErrorCode.offset_out_of_range),
    ]
    assert delete(wire, "nowhere", (0, 0)) == [(0, -1, ErrorCode.unknown_topic_or_partition)]


def test_a_topic_that_only_compacts_and_an_internal_one_keep_their_records(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", settings={"cleanup.policy": "compact"})
    assert delete(wire, "a", (0, 0)) == [(0, -1, ErrorCode.policy_violation)]
    assert delete(wire, "__consumer_offsets", (0, 0)) == [(0, -1, ErrorCode.invalid_topic_exception)]


@pytest.mark.parametrize("offset", [3, 12, 20])
def test_a_power_loss_right_after_the_response_revives_nothing(broker: Broker, offset: int) -> None:
    # Each segment has room for two records, so that offsets are at the edge of segments, within them and at the end.
    broker.create_topic("a", settings={"segment.bytes": 1024 * 1024, "max.message.bytes": 1024 * 1024})
    produce(broker, "a", [b"x" * 500_000] * 20)
    with Wire(broker) as wire:
        assert delete(wire, "a", (0, offset)) == [(0, offset, ErrorCode.none)]
    for seed in range(3):
        broker.kill(power_loss=Random(seed))
        broker.start()
        with Wire(broker) as wire:
            assert earliest_offset(wire, "a") == offset


def test_a_recreated_topic_keeps_its_records_through_a_kill(broker: Broker) -> None:
    broker.create_topic("a")
    produce(broker, "a", [b"old"] * 9)
    with Wire(broker) as wire:
        assert delete(wire, "a", (0, 7)) == [(0, 7, ErrorCode.none)]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics(["a"])["a"].result(30)
    broker.create_topic("a")
    produce(broker, "a", [b"new"] * 2)
    broker.kill()
    broker.start()
    with Wire(broker) as wire:
        assert earliest_offset(wire, "a") == 0
        assert delete(wire, "a", (0, -1)) == [(0, 2, ErrorCode.none)]
