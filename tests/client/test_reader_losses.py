"""No record is skipped silently: not because of a failure of another partition, after an error, or by a poll that is left early."""

from __future__ import annotations

import pyarrow
import pytest
from kio.schema.errors import ErrorCode
from tests.client.played_brokers import PlayedCluster, reader_of

from catchment.client.columns.decoding import CorruptRecords
from catchment.client.columns.encoding import encode
from catchment.client.errors import BrokerError, ClientError, TimedOut, Unreachable
from catchment.client.reader import Reader, Span
from catchment.client.topic_metadata import Leader

ENDLESS = [Span("topic", 0, 0), Span("topic", 1, 0)]
EVERYTHING = {0: list(range(10)), 1: list(range(10))}


@pytest.fixture
def played(played: PlayedCluster) -> PlayedCluster:
    played.leaders = {0: Leader(0, 1), 1: Leader(0, 1)}
    return played


def read_all(reader: Reader) -> dict[int, list[int]]:
    """Twenty records, of two partitions without an end."""
    found: dict[int, list[int]] = {0: [], 1: []}
    with reader:
        while sum(map(len, found.values())) < 20:
            for read in reader.poll(1):
                found[read.partition] += [int(value.as_py()) for value in read.batch.column("value")]
    return found


def refuse_in_the_middle(played: PlayedCluster, refused: int, code: ErrorCode) -> None:
    """Respond to one fetch of a partition with an error, together with records of the other."""
    broker = played.brokers[0]

    def error(partition: int) -> ErrorCode:
        return code if partition == refused and len(broker.requests) == 3 else ErrorCode.none

    broker.error = error


@pytest.mark.parametrize("refused", [0, 1])
@pytest.mark.parametrize(
    "failure",
    [
        Unreachable("no broker is there"),
        TimedOut("no broker responds"),
        BrokerError(ErrorCode.network_exception, "cannot list the offsets of topic-1"),
    ],
)
def test_a_failed_offset_lookup_loses_neither_its_partition_nor_other_records(
    played: PlayedCluster, refused: int, failure: ClientError
) -> None:
    refuse_in_the_middle(played, refused, ErrorCode.offset_out_of_range)
    played.failing_looks = [failure]
    assert read_all(reader_of(played, *ENDLESS)) == EVERYTHING
    assert played.failing_looks == []


def test_an_error_is_raised_again_and_nothing_is_read_after_it(played: PlayedCluster) -> None:
    refuse_in_the_middle(played, 1, ErrorCode.topic_authorization_failed)
    reader = reader_of(played, *ENDLESS)
    for _ in range(2):
        with pytest.raises(BrokerError, match=r"cannot read partition 1 of topic topic.*TOPIC_AUTHORIZATION_FAILED"):
            read_all(reader)


def test_the_next_poll_does_not_skip_corrupt_records(played: PlayedCluster) -> None:
    (batch,) = encode(pyarrow.record_batch({"value": [b"x" * 100]}), timestamp_ms=0)
    played.brokers[0].strange_records = batch.data[:-1] + b"y"
    reader = reader_of(played, *ENDLESS)
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="topic-0 has damaged records from offset 0 on"):
            read_all(reader)


def test_records_that_a_poll_did_not_return_come_with_the_next(played: PlayedCluster) -> None:
    found: dict[int, list[int]] = {0: [], 1: []}
    with reader_of(played, *[span._replace(end=10) for span in ENDLESS]) as reader:
        while not reader.is_finished:
            read = next(reader.poll(1))
            found[read.partition] += [int(value.as_py()) for value in read.batch.column("value")]
    assert found == EVERYTHING


def test_a_fetch_with_a_malformed_response_is_repeated(played: PlayedCluster) -> None:
    played.brokers[0].strange_responses = 1
    assert read_all(reader_of(played, *ENDLESS)) == EVERYTHING


def test_a_response_that_is_always_malformed_is_a_client_error(played: PlayedCluster) -> None:
    played.brokers[0].strange_responses = 10_000
    with pytest.raises(Unreachable, match="invalid response from played:9092"):
        read_all(reader_of(played, *ENDLESS, timeout_s=0.2))
