"""A query's offsets, committed to a consumer group as soon as a batch is finished."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Event, Timer

import pytest
from confluent_kafka import Consumer
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.driven_source import TIMEOUT_S, Query, stream_reader
from tests.waiting import wait_until

from catchment.client.cluster import Cluster
from catchment.client.errors import Unreachable
from catchment.client.offsets import Position
from catchment.client.topic_metadata import TopicPartition
from catchment.spark.notices import Notice, Publisher

TEN = [b"%d" % number for number in range(10)]


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    made = Publisher()
    yield made
    made.close()


@pytest.fixture
def topic(catchment_logs: CatchmentLogs) -> str:
    name = catchment_logs.topic()
    catchment_logs.fill(name, TEN)
    return name


def committed(logs: Logs, group: str, topic: str) -> int | None:
    with Cluster(logs.bootstrap_servers) as cluster:
        found = cluster.committed(group, [(topic, 0)])
    return found[topic, 0].offset if found else None


def is_committed(logs: Logs, group: str, topic: str, position: int) -> bool:
    return committed(logs, group, topic) == position


def wait_for(is_so: Callable[[], bool]) -> None:
    wait_until(is_so, timeout_s=TIMEOUT_S)


def finished(query: Query, name: str | None = "orders", run: str = "run") -> Notice:
    """What the driver tells of the last batch of a query."""
    return Notice("query-id", name, run, 0, (json.dumps(query.start),))


def heard(publisher: Publisher, notice: Notice, is_so: Callable[[], bool]) -> None:
    """Tell until it is heard: the reader may still be about to connect."""

    def is_reported() -> bool:
        publisher.send(notice)
        return is_so()

    wait_for(is_reported)


def test_a_finished_batch_is_committed_before_the_next_begins(
    catchment_logs: CatchmentLogs, topic: str, publisher: Publisher
) -> None:
    reader = stream_reader(catchment_logs, publisher.address, subscribe=topic, startingOffsets="earliest")
    query = Query(reader)
    assert query.batch() == TEN
    group = f"catchment-spark-{topic}"
    heard(publisher, finished(query, topic), lambda: committed(catchment_logs, group, topic) == 10)
    reader.stop()


def test_a_query_without_a_name_goes_by_its_id(catchment_logs: CatchmentLogs, topic: str, publisher: Publisher) -> None:
    reader = stream_reader(
        catchment_logs, publisher.address, subscribe=topic, startingOffsets="earliest", groupIdPrefix=topic
    )
    query = Query(reader)
    query.batch()
    heard(publisher, finished(query, None), lambda: committed(catchment_logs, f"{topic}-query-id", topic) == 10)
    reader.stop()


def test_notices_of_queries_that_go_another_way_are_ignored(
    catchment_logs: CatchmentLogs, topic: str, publisher: Publisher
) -> None:
    reader = stream_reader(
        catchment_logs,
        publisher.address,
        subscribe=topic,
        startingOffsets="earliest",
        groupIdPrefix=topic,
        maxOffsetsPerTrigger=5,
    )
    query = Query(reader)
    query.batch()
    other = Notice("other", "other", "other-run", 0, (json.dumps({topic: {"0": 7}}), '"file source"', "null", "{"))
    publisher.send(other)
    heard(publisher, finished(query, "mine"), lambda: committed(catchment_logs, f"{topic}-mine", topic) == 5)
    query.batch()
    heard(publisher, finished(query, "mine"), lambda: committed(catchment_logs, f"{topic}-mine", topic) == 10)
    assert committed(catchment_logs, f"{topic}-other", topic) is None
    reader.stop()


def test_queries_that_read_a_topic_in_step_are_each_committed_to_a_group_of_their_own(
    catchment_logs: CatchmentLogs, topic: str, publisher: Publisher
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "groupIdPrefix": topic, "maxOffsetsPerTrigger": 5}
    readers = [stream_reader(catchment_logs, publisher.address, **options) for _ in range(2)]
    queries = [Query(reader) for reader in readers]
    for position in (5, 10):
        for query in queries:
            query.batch()
        for name in ("one", "two"):
            reached = partial(is_committed, catchment_logs, f"{topic}-{name}", topic, position)
            heard(publisher, finished(queries[0], name, f"run-{name}"), reached)
    for reader in readers:
        reader.stop()


def test_without_notices_a_named_group_hears_of_a_batch_when_the_next_is_planned(logs: Logs) -> None:
    topic = logs.topic()
    logs.fill(topic, TEN)
    reader = stream_reader(logs, subscribe=topic, startingOffsets="earliest", kafka__group__id=f"group-{topic}")
    query = Query(reader)
    query.batch()
    query.batch()
    wait_for(lambda: committed(logs, f"group-{topic}", topic) == 10)
    logs.fill(topic, [b"x"])
    query.batch()
    reader.commit(query.start)
    wait_for(lambda: committed(logs, f"group-{topic}", topic) == 11)
    reader.stop()


def test_without_notices_and_name_nothing_is_committed(
    catchment_logs: CatchmentLogs, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.spark.source.stream_run._LAST_COMMIT_S", 120.0)
    query = Query(stream_reader(catchment_logs, subscribe=topic, startingOffsets="earliest"))
    query.batch()
    query.reader.prepareForTriggerAvailableNow()
    started_s = time.monotonic()
    query.batch()
    assert time.monotonic() - started_s < 60, "there is nothing to wait for at the end"
    query.reader.stop()


def test_available_now_ends_with_its_commit(catchment_logs: CatchmentLogs, topic: str) -> None:
    group = f"group-{topic}"
    reader = stream_reader(catchment_logs, subscribe=topic, startingOffsets="earliest", kafka__group__id=group)
    query = Query(reader)
    reader.prepareForTriggerAvailableNow()
    assert query.batch() == TEN
    assert query.batch() == []
    assert committed(catchment_logs, group, topic) == 10
    reader.stop()


def test_available_now_waits_a_moment_for_the_name_of_its_query(
    catchment_logs: CatchmentLogs, topic: str, publisher: Publisher
) -> None:
    reader = stream_reader(
        catchment_logs, publisher.address, subscribe=topic, startingOffsets="earliest", groupIdPrefix=topic
    )
    query = Query(reader)
    reader.prepareForTriggerAvailableNow()
    assert query.batch() == TEN
    # The reader is connected by now or will be: a late subscriber also gets the notice of the last batch.
    late = Timer(0.2, publisher.send, [finished(query)])
    late.start()
    assert query.batch() == []
    assert committed(catchment_logs, f"{topic}-orders", topic) == 10
    late.join()
    reader.stop()


def test_a_batch_that_a_new_run_repeats_is_committed_though_that_run_has_not_planned_it(
    catchment_logs: CatchmentLogs, topic: str, publisher: Publisher
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "groupIdPrefix": topic}
    crashed = stream_reader(catchment_logs, **options)
    start = crashed.initialOffset()
    end = crashed.latestOffset(start, crashed.getDefaultReadLimit())
    reader = stream_reader(catchment_logs, publisher.address, **options)
    reader.partitions(start, end)
    notice = finished(Query(reader, end))
    heard(publisher, notice, lambda: committed(catchment_logs, f"{topic}-orders", topic) == 10)
    reader.stop()


def fail_once(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Let the first commit fail, and tell when it has."""
    failed = Event()
    commit = Cluster.commit

    def try_to_commit(cluster: Cluster, group: str, positions: Mapping[TopicPartition, int | Position]) -> None:
        if not failed.is_set():
            failed.set()
            raise Unreachable("the broker is away")
        commit(cluster, group, positions)

    monkeypatch.setattr(Cluster, "commit", try_to_commit)
    return failed


def test_a_commit_that_fails_is_tried_again_though_no_further_batch_comes(
    catchment_logs: CatchmentLogs, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch)
    monkeypatch.setattr("catchment.spark.source.group_commits._PAUSE_S", 0.01)
    group = f"group-{topic}"
    reader = stream_reader(catchment_logs, subscribe=topic, startingOffsets="earliest", kafka__group__id=group)
    query = Query(reader)
    query.batch()
    reader.commit(query.start)
    wait_for(lambda: committed(catchment_logs, group, topic) == 10)
    reader.stop()


def test_what_is_due_when_a_query_is_stopped_is_committed_before_it_ends(
    catchment_logs: CatchmentLogs, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = fail_once(monkeypatch)
    monkeypatch.setattr("catchment.spark.source.group_commits._PAUSE_S", 120.0)
    monkeypatch.setattr("catchment.spark.source.group_commits._CLOSE_S", TIMEOUT_S)
    group = f"group-{topic}"
    reader = stream_reader(catchment_logs, subscribe=topic, startingOffsets="earliest", kafka__group__id=group)
    query = Query(reader)
    query.batch()
    reader.commit(query.start)
    assert failed.wait(TIMEOUT_S)
    reader.stop()
    assert committed(catchment_logs, group, topic) == 10


def test_a_group_with_members_is_left_alone_and_the_query_goes_on(
    catchment_logs: CatchmentLogs, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"group-{topic}"
    consumer = Consumer({"bootstrap.servers": catchment_logs.bootstrap_servers, "group.id": group})
    consumer.subscribe([topic])
    try:
        wait_for(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()))
        options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
        reader = stream_reader(catchment_logs, kafka__group__id=group, **options)
        query = Query(reader)
        with caplog.at_level(logging.WARNING):
            read = [query.batch() for _ in range(4)]
            wait_for(lambda: f"not committed to group {group}" in caplog.text)
        assert [len(values) for values in read] == [4, 4, 2, 0]
        assert caplog.text.count("not committed to group") == 1
        reader.stop()
    finally:
        consumer.close()
