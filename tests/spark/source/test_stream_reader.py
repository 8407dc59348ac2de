"""Streaming queries: where they begin, how far batches go, and how topics may change under them."""

from __future__ import annotations

import json
import logging
import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.driven_source import (
    TIMEOUT_S,
    Query,
    delete_records,
    delete_topic,
    ranges,
    stream_reader,
    values,
    without_topics,
)

from catchment.client.errors import ClientError
from catchment.spark.source.data_loss import DataLost
from catchment.testing.embedded import Broker

TEN = [b"%d" % number for number in range(10)]


def from_earliest(logs: Logs, topic: str, **options: object) -> Query:
    return Query(stream_reader(logs, subscribe=topic, startingOffsets="earliest", **options))


def test_batches_follow_one_another_without_gap_or_repeat(logs: Logs) -> None:
    topic = logs.topic()
    logs.fill(topic, TEN)
    query = from_earliest(logs, topic)
    assert query.batch() == TEN
    assert query.batch() == []
    logs.fill(topic, [b"x", b"y"])
    assert query.batch() == [b"x", b"y"]
    assert query.read == {topic: {"0": 12}}
    assert query.reader.reportLatestOffset() == {topic: {"0": 12}}


def test_the_beginning_stays_the_same_however_often_it_is_asked(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    reader = stream_reader(catchment_logs, subscribe=topic)
    assert without_topics(reader.initialOffset()) == {topic: {"0": 10}}
    catchment_logs.fill(topic, [b"x"])
    assert without_topics(reader.initialOffset()) == {topic: {"0": 10}}


def test_a_start_at_the_end_is_written_down_by_an_empty_batch(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    query = Query(stream_reader(catchment_logs, subscribe=topic))
    catchment_logs.fill(topic, TEN)
    assert query.batch() == []
    assert query.read == {topic: {"0": 0}}
    assert query.batch() == TEN


def test_a_first_batch_that_is_repeated_in_another_run_loses_nothing(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    first_run = Query(stream_reader(catchment_logs, subscribe=topic))
    first_run.batch()
    planned_end = first_run.start
    catchment_logs.fill(topic, TEN)
    # Spark asks for the beginning again, which is later now, and repeats the batch up to the end that it had planned.
    reader = stream_reader(catchment_logs, subscribe=topic)
    assert without_topics(reader.initialOffset()) == {topic: {"0": 10}}
    assert reader.partitions(reader.initialOffset(), planned_end) == []
    assert Query(reader, planned_end).batch() == TEN


def test_offsets_beyond_the_end_are_lost_data(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    query = Query(stream_reader(catchment_logs, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 50}})))
    with pytest.raises(DataLost, match=f"partition 0 of topic {topic} was read up to offset 50 but ends at 10"):
        query.batch()


def test_a_batch_has_no_more_offsets_than_it_may_have(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic(partitions=2)
    catchment_logs.fill(topic, TEN)
    catchment_logs.fill(topic, [b"a", b"b"], partition=1)
    query = from_earliest(catchment_logs, topic, maxOffsetsPerTrigger=6)
    assert query.batch() == [*TEN[:5], b"a"]
    assert query.batch() == [*TEN[5:], b"b"]


def test_a_query_that_takes_all_at_once_ignores_limits(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    query = from_earliest(catchment_logs, topic, maxOffsetsPerTrigger=6, minOffsetsPerTrigger=5)
    query.limit = ReadAllAvailable()
    assert query.batch() == TEN


def test_a_batch_waits_until_it_has_enough(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, [b"first"])
    query = from_earliest(catchment_logs, topic, minOffsetsPerTrigger=3)
    assert query.batch() == [b"first"]
    catchment_logs.fill(topic, [b"a", b"b"])
    assert query.batch() == []
    catchment_logs.fill(topic, [b"c"])
    assert query.batch() == [b"a", b"b", b"c"]


def test_available_now_ends_where_topics_ended_at_the_start(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    query = from_earliest(catchment_logs, topic, maxOffsetsPerTrigger=4, minOffsetsPerTrigger=4)
    query.reader.prepareForTriggerAvailableNow()
    catchment_logs.fill(topic, [b"too late"])
    assert [query.batch() for _ in range(4)] == [TEN[:4], TEN[4:8], TEN[8:], []]
    assert query.read == {topic: {"0": 10}}


def test_new_partitions_are_read_from_their_beginning(logs: Logs) -> None:
    topic = logs.topic()
    logs.fill(topic, [b"old"])
    query = from_earliest(logs, topic)
    assert query.batch() == [b"old"]
    logs.grow(topic, 2)
    logs.fill(topic, [b"new"], partition=1)
    assert query.batch() == [b"new"]
    assert query.read == {topic: {"0": 1, "1": 1}}


def test_new_topics_of_a_pattern_are_read_from_their_beginning(catchment_logs: CatchmentLogs) -> None:
    first = catchment_logs.topic()
    catchment_logs.fill(first, [b"old"])
    reader = stream_reader(catchment_logs, subscribePattern=rf"{first}|{first}-\d", startingOffsets="earliest")
    query = Query(reader)
    assert query.batch() == [b"old"]
    catchment_logs.create(f"{first}-2", 1, {})
    catchment_logs.fill(f"{first}-2", [b"new"])
    assert query.batch() == [b"new"]


def test_records_that_retention_took_are_reported_or_skipped(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    strict, lenient = (from_earliest(catchment_logs, topic, failOnDataLoss=fails) for fails in (True, False))
    delete_records(catchment_logs, topic, 4)
    with pytest.raises(DataLost, match=f"offsets 0 to 4 of topic {topic}, partition 0, cannot be read"):
        strict.batch()
    assert lenient.batch() == TEN[4:]


def test_a_topic_that_is_deleted_is_reported_or_left_out(
    catchment_logs: CatchmentLogs, caplog: pytest.LogCaptureFixture
) -> None:
    gone, kept = catchment_logs.topic(), catchment_logs.topic()
    for topic in (gone, kept):
        catchment_logs.fill(topic, [b"first"])
    strict, lenient = (from_earliest(catchment_logs, f"{gone},{kept}", failOnDataLoss=fails) for fails in (True, False))
    for query in (strict, lenient):
        assert query.batch() == [b"first", b"first"]
    catchment_logs.broker.delete_topic(gone)
    catchment_logs.fill(kept, [b"second"])
    with pytest.raises(DataLost, match=f"partition 0 of topic {gone}, read up to offset 1, is gone"):
        strict.batch()
    with caplog.at_level(logging.WARNING):
        assert lenient.batch() == [b"second"]
    assert f"topic {gone}, read up to offset 1, is gone" in caplog.text
    assert lenient.read == {kept: {"0": 2}}
    # What else there is, and what comes back, is found though a topic is missing.
    catchment_logs.grow(kept, 2)
    catchment_logs.fill(kept, [b"third"], partition=1)
    assert lenient.batch() == [b"third"]
    catchment_logs.broker.create_topic(gone)
    catchment_logs.fill(gone, [b"fourth"])
    assert lenient.batch() == [b"fourth"]


@pytest.mark.parametrize("count", [3, 20])
def test_a_topic_that_is_recreated_is_reported(logs: Logs, count: int) -> None:
    """Even if it has grown beyond what was read of the one before."""
    topic = logs.topic()
    logs.fill(topic, TEN)
    query = from_earliest(logs, topic)
    assert query.batch() == TEN
    recreate(logs, topic, count)
    with pytest.raises(DataLost, match=f"topic {topic} was deleted and recreated"):
        query.batch()


@pytest.mark.parametrize("count", [3, 10, 20])
def test_a_topic_that_is_recreated_while_the_query_is_stopped_is_reported_whenever_it_is_started(
    logs: Logs, count: int
) -> None:
    topic = logs.topic()
    logs.fill(topic, TEN)
    query = from_earliest(logs, topic)
    assert query.batch() == TEN
    recreate(logs, topic, count)
    for _ in range(2):
        with pytest.raises(DataLost, match=f"topic {topic} was deleted and recreated"):
            Query(stream_reader(logs, subscribe=topic), query.start).batch()
    lenient = Query(stream_reader(logs, subscribe=topic, failOnDataLoss=False), query.start)
    assert lenient.batch() == [b"%d" % number for number in range(count)]
    assert Query(stream_reader(logs, subscribe=topic), lenient.start).batch() == [], "it is known from then on"


@pytest.mark.parametrize("count", [3, 10, 20])
def test_a_topic_that_is_recreated_is_read_from_its_beginning_if_allowed(
    catchment_logs: CatchmentLogs, count: int
) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    query = from_earliest(catchment_logs, topic, failOnDataLoss=False)
    assert query.batch() == TEN
    recreate(catchment_logs, topic, count)
    assert query.batch() == [b"%d" % number for number in range(count)]
    catchment_logs.fill(topic, [b"next"])
    assert query.batch() == [b"next"]


def test_a_run_that_finds_less_than_its_checkpoint_says_tells_it(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, [b"only"])
    reader = stream_reader(catchment_logs, subscribe=topic)
    checkpoint = {topic: {"0": 10}}
    with pytest.raises(DataLost, match="was read up to offset 10 but ends at 1"):
        reader.latestOffset(checkpoint, reader.getDefaultReadLimit())
    with pytest.raises(DataLost, match="was read up to offset 10 but ends at 1"):
        reader.partitions(checkpoint, {topic: {"0": 1}})


def test_a_checkpoint_that_knows_no_topics_is_gone_on_with(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    query = Query(stream_reader(catchment_logs, subscribe=topic), {topic: {"0": 10}})
    assert query.batch() == []
    assert query.start == {topic: {"0": 10}}, "that it does not makes no batch"
    catchment_logs.fill(topic, [b"next"])
    assert query.batch() == [b"next"]
    assert f"topic:{topic}" in query.start


def test_each_run_begins_with_a_batch_where_that_is_asked_for(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, TEN)
    query = from_earliest(catchment_logs, topic, batchAtStart=True)
    assert query.batch() == TEN
    for run in (2, 3):
        again = Query(stream_reader(catchment_logs, subscribe=topic, batchAtStart=True), query.start)
        assert again.batch() == []
        assert again.start == query.start | {"run:": {"0": run}}, "Spark runs it, for its end is another than its start"
        assert again.batch() == []
        assert again.start["run:"] == {"0": run}, "and no other"
        query = again
    catchment_logs.fill(topic, [b"next"])
    assert query.batch() == [b"next"]


def test_what_is_there_now_of_a_topic_that_is_not_there_is_an_error(catchment_logs: CatchmentLogs) -> None:
    reader = stream_reader(catchment_logs, subscribe="no-such-topic", startingOffsets="earliest")
    # Spark asks in this order with trigger(availableNow=True).
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(ClientError, match="no-such-topic: it does not exist"):
        reader.initialOffset()


def recreate(logs: Logs, topic: str, count: int) -> None:
    """Delete a topic and create it again, as soon as its deletion lets it."""
    delete_topic(logs, topic)
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            logs.create(topic, 1, {})
            break
        except Exception:
            assert time.monotonic() < deadline_s
    logs.fill(topic, [b"%d" % number for number in range(count)])


def test_plans_follow_from_offsets_and_options_alone(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic(partitions=2)
    start, end = {topic: {"0": 0}}, {topic: {"1": 100, "0": 300}}
    readers = [stream_reader(catchment_logs, subscribe=topic, minPartitions=4) for _ in range(2)]
    plans = [ranges(reader.partitions(start, end)) for reader in readers]
    assert plans[0] == plans[1] == [(0, 0, 100), (0, 100, 200), (0, 200, 300), (1, 0, 100)]


def test_a_broker_that_restarts_is_survived_by_planner_and_tasks() -> None:
    with Broker() as broker:
        logs = CatchmentLogs(broker)
        topic = logs.topic()
        logs.fill(topic, TEN)
        query = from_earliest(logs, topic)
        planned = query.reader.partitions(query.start, {topic: {"0": 10}})
        assert values(query.reader, planned) == TEN
        broker.restart()
        assert values(query.reader, planned) == TEN
        assert query.batch() == TEN
        broker.restart()
        logs.fill(topic, [b"x"])
        assert query.batch() == [b"x"]


def test_a_cluster_that_is_not_there_is_reported(catchment_logs: CatchmentLogs) -> None:
    reader = stream_reader(
        catchment_logs, subscribe="any", kafka__bootstrap__servers="127.0.0.1:1", kafka__default__api__timeout__ms=100
    )
    with pytest.raises(ClientError, match=r"cannot connect to 127\.0\.0\.1:1"):
        reader.initialOffset()
