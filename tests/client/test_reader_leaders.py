"""Reading from several brokers while leaders move, and past offsets that compaction removed, with brokers played by the test."""

from __future__ import annotations

import pyarrow
import pytest
from kio.schema.errors import ErrorCode
from tests.client.played_brokers import PlayedCluster, reader_of

from catchment.client.columns.encoding import encode
from catchment.client.errors import BrokerError, ClientError, Unreachable
from catchment.client.reader import Reader, Span
from catchment.client.topic_metadata import Leader


def values(reader: Reader) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    with reader:
        for read in reader:
            found.setdefault(read.partition, []).extend(int(value.as_py()) for value in read.batch.column("value"))
    return found


def test_partitions_of_several_brokers_are_read_together(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1), 1: Leader(1, 1), 2: Leader(1, 1)}
    found = values(reader_of(played, Span("topic", 0, 0, 10), Span("topic", 1, 2, 6), Span("topic", 2, 9, 10)))
    assert found == {0: list(range(10)), 1: [2, 3, 4, 5], 2: [9]}


def test_a_partition_that_is_read_to_its_end_is_dropped_and_the_session_closed(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1), 1: Leader(0, 1)}
    values(reader_of(played, Span("topic", 0, 0, 2), Span("topic", 1, 0, 5)))
    requests = played.brokers[0].requests
    assert [one.session_epoch for one in requests] == [0, 1, 2, 3, 4, -1]
    assert [topic.partitions for one in requests for topic in one.forgotten_topics_data] == [(0,)]


@pytest.mark.parametrize("code", [ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch])
def test_a_partition_whose_leader_moves_is_read_from_the_new_one(played: PlayedCluster, code: ErrorCode) -> None:
    played.leaders = {0: Leader(0, 1), 1: Leader(0, 1)}
    old, new = played.brokers
    reads = iter(reader_of(played, Span("topic", 0, 0, 6), Span("topic", 1, 0, 6)))
    found = [next(reads) for _ in range(4)]
    old.error = lambda partition: code if partition == 1 else ErrorCode.none

    def learn() -> None:
        played.leaders[1] = Leader(1, 2)

    played.on_refresh = learn
    found += list(reads)
    for partition in (0, 1):
        rows = [read.batch.column("value")[0].as_py() for read in found if read.partition == partition]
        assert rows == [b"%d" % number for number in range(6)]
    (asked,) = new.requests[0].topics[0].partitions
    assert (asked.partition, asked.current_leader_epoch) == (1, 2)
    assert played.refreshed >= 1


def test_after_a_broker_goes_down_the_new_leader_is_read(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1)}
    reads = iter(reader_of(played, Span("topic", 0, 0, 8)))
    found = [next(reads) for _ in range(3)]
    played.brokers[0].is_down = True

    def learn() -> None:
        played.leaders[0] = Leader(1, 2)

    played.on_refresh = learn
    found += list(reads)
    assert [read.batch.column("value")[0].as_py() for read in found] == [b"%d" % number for number in range(8)]


def test_a_broker_that_stops_responding_is_abandoned(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1)}
    reads = iter(reader_of(played, Span("topic", 0, 0, 8), timeout_s=2))
    found = [next(reads) for _ in range(3)]
    played.brokers[0].is_silent = True

    def learn() -> None:
        played.leaders[0] = Leader(1, 2)

    played.on_refresh = learn
    found += list(reads)
    assert [read.batch.column("value")[0].as_py() for read in found] == [b"%d" % number for number in range(8)]


def test_a_partition_without_a_leader_does_not_delay_others(played: PlayedCluster) -> None:
    played.leaders = {1: Leader(0, 1)}
    spans = [Span("topic", 0, 0, 10), Span("topic", 1, 0, 10)]
    reads = iter(reader_of(played, *spans))
    found = [next(reads) for _ in range(10)]
    assert {read.partition for read in found} == {1}

    def elect() -> None:
        played.leaders[0] = Leader(1, 2)

    played.on_refresh = elect
    assert [read.partition for read in reads] == [0] * 10


def test_a_leader_that_is_not_found_in_time_is_an_error(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1)}
    played.brokers[0].error = lambda partition: ErrorCode.not_leader_or_follower
    with pytest.raises(BrokerError, match=r"cannot read partition 0 of topic topic.*NOT_LEADER_OR_FOLLOWER"):
        values(reader_of(played, Span("topic", 0, 0, 8), timeout_s=2))


def test_offsets_that_compaction_removed_are_skipped(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1), 1: Leader(1, 1)}
    played.brokers[0].high_watermark = 20
    reader = reader_of(played, Span("topic", 0, 0, 20), Span("topic", 1, 0, 10))
    assert values(reader) == {0: list(range(10)), 1: list(range(10))}
    assert reader.positions == {("topic", 0): 20, ("topic", 1): 10}


def test_the_local_log_start_is_requested_again_after_an_error(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1)}
    played.brokers[0].high_watermark = 20
    played.failing_looks = [
        Unreachable("no broker is there"),
        BrokerError(ErrorCode.not_leader_or_follower, "cannot list the offsets of topic-0"),
    ]
    assert values(reader_of(played, Span("topic", 0, 0, 20))) == {0: list(range(10))}
    assert played.failing_looks == []


def test_slow_records_in_remote_storage_are_not_skipped(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1)}
    broker = played.brokers[0]
    played.local_start, broker.log_end, broker.high_watermark = 8, 3, 10
    reads = iter(reader_of(played, Span("topic", 0, 0, 10)))
    found = [next(reads) for _ in range(3)]
    asked = len(broker.requests)

    def fetched_at_last(partition: int) -> ErrorCode:
        if len(broker.requests) > asked + 10:
            broker.log_end = 10
        return ErrorCode.none

    broker.error = fetched_at_last
    found += list(reads)
    assert [int(read.batch.column("value")[0].as_py()) for read in found] == list(range(10))


def test_throttled_responses_do_not_count_as_empty(played: PlayedCluster) -> None:
    played.leaders = {0: Leader(0, 1)}
    broker = played.brokers[0]
    reads = iter(reader_of(played, Span("topic", 0, 0, 5)))
    found = [next(reads)]
    broker.throttle_time_ms = 1
    held_back_from = len(broker.requests)

    def relent(partition: int) -> ErrorCode:
        if len(broker.requests) > held_back_from + 10:
            broker.throttle_time_ms = 0
        return ErrorCode.none

    broker.error = relent
    found += list(reads)
    assert [read.batch.column("value")[0].as_py() for read in found] == [b"0", b"1", b"2", b"3", b"4"]


def test_corrupt_records_or_those_of_an_old_format_are_an_error_that_names_the_partition(
    played: PlayedCluster,
) -> None:
    played.leaders = {0: Leader(0, 1)}
    (batch,) = encode(pyarrow.record_batch({"value": [b"x" * 100]}), timestamp_ms=0)
    old_format = bytes(16) + b"\x01" + bytes(100)
    for records in (batch.data[:-1] + b"y", old_format):
        played.brokers[0].strange_records = records
        with pytest.raises(ClientError, match="topic-0"):
            values(reader_of(played, Span("topic", 0, 0, 1)))
