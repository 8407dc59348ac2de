"""ListOffsets over the wire: both ends, by time, and the special timestamps."""

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64
from tests.broker.handlers.log_requests import append, batch, list_offset, milliseconds
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
START_MS = 1_700_000_000_000


@pytest.fixture
def filled(broker: Broker, wire: Wire) -> None:
    """Offsets 0 to 4 at START_MS plus 0, 10, 50, 20 and 30."""
    broker.create_topic("a")
    for after_ms in (0, 10, 50, 20, 30):
        append(wire, "a", batch(b"x", base_timestamp_ms=START_MS + after_ms))


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("version", range(1, 12))
def test_both_ends_in_every_version(wire: Wire, version: int) -> None:
    assert list_offset(wire, "a", EARLIEST, version=version).offset == 0
    assert list_offset(wire, "a", LATEST, version=version).offset == 5


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(("after_ms", "offset"), [(-5, 0), (0, 0), (1, 1), (10, 1), (11, 2), (50, 2)])
def test_a_timestamp_gives_the_first_record_that_is_at_least_as_new(wire: Wire, after_ms: int, offset: int) -> None:
    found = list_offset(wire, "a", START_MS + after_ms)
    assert found.offset == offset
    assert found.timestamp >= START_MS + after_ms


@pytest.mark.usefixtures("filled")
def test_a_time_after_the_last_record_has_no_offset(wire: Wire) -> None:
    found = list_offset(wire, "a", START_MS + 51)
    assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.none, -1, -1)


@pytest.mark.usefixtures("filled")
def test_the_special_timestamps(wire: Wire) -> None:
    largest = list_offset(wire, "a", MAX_TIMESTAMP)
    assert (largest.offset, largest.timestamp) == (2, START_MS + 50)
    assert list_offset(wire, "a", EARLIEST_LOCAL).offset == 0
    assert list_offset(wire, "a", LATEST_TIERED).offset == -1
    assert list_offset(wire, "a", EARLIEST_PENDING_UPLOAD).offset == -1


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("timestamp_ms", "first"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (-6, 11), (-7, 12)]
)
def test_a_special_timestamp_needs_its_version(wire: Wire, timestamp_ms: int, first: int) -> None:
    for version in range(1, 12):
        expected = ErrorCode.none if version >= first else ErrorCode.unsupported_version
        assert list_offset(wire, "a", timestamp_ms, version=version).error_code is expected


@pytest.mark.usefixtures("filled")
def test_a_partition_that_is_named_twice_is_an_invalid_request(wire: Wire) -> None:
    partition = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(LATEST))
    for topics in (
        (ListOffsetsTopic(name=TopicName("a"), partitions=(partition, partition)),),
        (ListOffsetsTopic(name=TopicName("a"), partitions=(partition,)),) * 2,
    ):
        request = ListOffsetsRequest(
            replica_id=BrokerId(-1), isolation_level=i8(0), topics=topics, timeout=milliseconds(1000)
        )
        answers = [answer for topic in wire.ask(request, 11).topics for answer in topic.partitions]
        assert [(answer.error_code, answer.offset) for answer in answers] == [
            (ErrorCode.invalid_request, -1) for _ in topics
        ]


def test_the_start_of_an_empty_partition_has_the_current_leader_epoch(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert list_offset(wire, "a", EARLIEST).leader_epoch == 0
    assert list_offset(wire, "a", MAX_TIMESTAMP).leader_epoch == -1
    broker.restart()
    with Wire(broker) as again:
        assert list_offset(again, "a", EARLIEST).leader_epoch == 1
        assert list_offset(again, "a", EARLIEST_LOCAL).leader_epoch == 1


def test_an_empty_partition_has_ends_but_no_times(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    assert list_offset(wire, "a", EARLIEST).offset == 0
    assert list_offset(wire, "a", LATEST).offset == 0
    assert list_offset(wire, "a", MAX_TIMESTAMP).offset == -1
    assert list_offset(wire, "a", START_MS).offset == -1


@pytest.mark.usefixtures("filled")
def test_the_wrong_epoch_and_the_wrong_topic_are_errors(wire: Wire) -> None:
    assert list_offset(wire, "a", LATEST, leader_epoch=5).error_code is ErrorCode.unknown_leader_epoch
    assert list_offset(wire, "nowhere", LATEST).error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.usefixtures("filled")
def test_the_leader_epoch_is_the_one_under_which_the_record_was_written(broker: Broker) -> None:
    broker.restart()
    with Wire(broker) as again:
        append(again, "a", batch(b"x", base_timestamp_ms=START_MS + 100))
        assert list_offset(again, "a", START_MS).leader_epoch == 0
        assert list_offset(again, "a", START_MS + 100).leader_epoch == 1
        assert list_offset(again, "a", LATEST).leader_epoch == 1
