"""Produce over the wire: what is taken, what is refused and why, and when the answer comes."""

import struct

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.log_requests import (
    ALL,
    LEADER,
    NONE,
    append,
    batch,
    fetch,
    fetch_request,
    list_offset,
    produce_request,
)
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

LATEST = -1


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [ALL, LEADER])
def test_a_batch_gets_the_next_offsets_in_every_version(broker: Broker, wire: Wire, version: int, acks: int) -> None:
    broker.create_topic("a")
    first = append(wire, "a", batch(b"x", b"y"), version=version, acks=acks)
    second = append(wire, "a", batch(b"z"), version=version, acks=acks)
    assert (first.error_code, first.base_offset) == (ErrorCode.none, 0)
    assert (second.error_code, second.base_offset) == (ErrorCode.none, 2)


def test_without_acknowledgement_there_is_no_response_but_the_records_are_there(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    wire.send(produce_request(wire, "a", batch(b"quiet"), acks=NONE, version=9), 9)
    assert fetch(wire, fetch_request("a", (0, 0), max_wait_ms=30_000), 12).values() == [b"quiet"]


def test_without_acknowledgement_an_error_ends_the_connection(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    wire.send(produce_request(wire, "a", b"nonsense", acks=NONE, version=9), 9)
    with pytest.raises(ConnectionError):
        list_offset(wire, "a", LATEST)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
        (b"x" * 61, ErrorCode.invalid_record),
        (batch(b"x")[:-1], ErrorCode.invalid_record),
        (batch(b"x") + batch(b"y"), ErrorCode.invalid_record),
        (batch(b"x")[:-1] + b"?", ErrorCode.corrupt_message),
        (batch(b"x", is_control=True), ErrorCode.invalid_record),
        (batch(b"x", last_offset_delta=7), ErrorCode.invalid_record),
        (batch(b"x", is_log_append_time=True), ErrorCode.invalid_timestamp),
        (batch(b"x", base_timestamp_ms=1 << 60), ErrorCode.invalid_timestamp),
        (batch(b"x" * 2_000_000), ErrorCode.message_too_large),
    ],
    ids=["null", "empty", "zeros", "cut", "two", "corrupt", "control", "count", "stamped", "future", "large"],
)
def test_a_bad_batch_is_rejected_and_changes_nothing(
    broker: Broker, wire: Wire, records: bytes | None, code: ErrorCode
) -> None:
    broker.create_topic("a")
    assert append(wire, "a", records).error_code is code
    assert list_offset(wire, "a", LATEST).offset == 0
    assert append(wire, "a", batch(b"good")).base_offset == 0


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_only_magic_two_is_taken(broker: Broker, wire: Wire, magic: int) -> None:
    broker.create_topic("a")
    old = bytearray(batch(b"x"))
    old[16] = magic
    assert append(wire, "a", bytes(old)).error_code is ErrorCode.invalid_record


def test_each_partition_responses_for_itself(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    assert append(wire, "a", batch(b"x"), partition=1).error_code is ErrorCode.none
    assert append(wire, "a", batch(b"x"), partition=2).error_code is ErrorCode.unknown_topic_or_partition
    assert append(wire, "nowhere", batch(b"x"), version=12).error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_other_acknowledgements_do_not_exist(broker: Broker, wire: Wire, acks: int) -> None:
    broker.create_topic("a")
    assert append(wire, "a", batch(b"x"), acks=acks).error_code is ErrorCode.invalid_required_acks


def test_all_means_at_least_the_least_in_sync_replicas(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", settings={"min.insync.replicas": 2})
    assert append(wire, "a", batch(b"x"), acks=ALL).error_code is ErrorCode.not_enough_replicas
    assert append(wire, "a", batch(b"x"), acks=LEADER).error_code is ErrorCode.none


def test_a_repeated_batch_is_answered_with_its_first_offset(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    append(wire, "a", batch(b"before"))
    sent = batch(b"x", b"y", producer_id=5, producer_epoch=0, base_sequence=0)
    assert append(wire, "a", sent).base_offset == 1
    assert append(wire, "a", sent).base_offset == 1
    assert list_offset(wire, "a", LATEST).offset == 3


def test_a_gap_in_the_sequence_and_an_old_epoch_are_rejected(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    append(wire, "a", batch(b"x", producer_id=5, producer_epoch=1, base_sequence=0))
    gap = append(wire, "a", batch(b"y", producer_id=5, producer_epoch=1, base_sequence=2))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    zombie = append(wire, "a", batch(b"y", producer_id=5, producer_epoch=0, base_sequence=1))
    assert zombie.error_code is ErrorCode.invalid_producer_epoch


def test_sequences_are_remembered_over_a_restart(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    sent = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0)
    append(wire, "a", sent)
    broker.restart()
    with Wire(broker) as again:
        assert append(again, "a", sent).base_offset == 0
        assert append(again, "a", batch(b"y", producer_id=5, producer_epoch=0, base_sequence=1)).base_offset == 1


def test_log_append_time_stamps_the_batch_and_says_so(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", settings={"message.timestamp.type": "LogAppendTime"})
    assert append(wire, "a", batch(b"x", base_timestamp_ms=1)).log_append_time is not None
    records = fetch(wire, fetch_request("a", (0, 0)), 12).partitions[0][1].records
    assert struct.unpack_from(">q", records, 35)[0] > 1_600_000_000_000


def test_a_failed_sync_is_answered_as_a_storage_error_and_stays_one(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert append(wire, "a", batch(b"safe")).error_code is ErrorCode.none
    broker.faults.fail_disk_syncs()
    assert append(wire, "a", batch(b"lost")).error_code is ErrorCode.kafka_storage_error
    assert append(wire, "a", batch(b"refused")).error_code is ErrorCode.kafka_storage_error
    assert fetch(wire, fetch_request("a", (0, 0)), 12).values() == [b"safe"]


def test_a_full_disk_refuses_writes_until_there_is_room(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    append(wire, "a", batch(b"before"))
    broker.faults.fill_disk()
    assert append(wire, "a", batch(b"no room")).error_code is ErrorCode.kafka_storage_error
    assert fetch(wire, fetch_request("a", (0, 0)), 12).values() == [b"before"]
    broker.faults.clear()
    assert append(wire, "a", batch(b"after")).base_offset == 1
