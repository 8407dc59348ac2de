"""A stream that follows another query: it reads that query's batches whole, oldest first, and none that is not done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.checkpoints import FakeCheckpoint
from tests.spark.driven_source import Query, stream_reader

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError
from catchment.client.producer import Producer

_numbers = count()
SECOND_MS = 1000


class Upstream:
    """The query that writes: batches of one time each, in transactions of several tasks, to a topic of two partitions."""

    def __init__(self, logs: Logs, folder: Path) -> None:
        self.logs = logs
        self.topic = logs.topic(partitions=2)
        self.checkpoint = FakeCheckpoint(folder)

    @contextmanager
    def task(self, partition: int, values: list[str], time_ms: int) -> Iterator[Producer]:
        """A task that has written, and whose transaction is open."""
        moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
        rows = pa.table(
            {
                "value": [value.encode() for value in values],
                "timestamp": pa.array([moment] * len(values), pa.timestamp("us", tz="UTC")),
            }
        )
        with (
            Cluster(self.logs.bootstrap_servers) as cluster,
            Producer(cluster, transactional_id=f"task-{next(_numbers)}") as producer,
        ):
            producer.begin()
            producer.write(self.topic, rows, partition=partition)
            producer.flush()
            yield producer

    def write(self, partition: int, values: list[str], time_ms: int, *, commit: bool = True) -> None:
        with self.task(partition, values, time_ms) as producer:
            producer.commit() if commit else producer.abort()

    def batch(self, batch_id: int, values: list[list[str]], time_ms: int) -> None:
        """A whole batch, from its plan to Spark's note that it is done."""
        self.checkpoint.plan(batch_id, time_ms=time_ms)
        for partition, some in enumerate(values):
            if some:
                self.write(partition, some, time_ms)
        self.checkpoint.finish(batch_id)
        for partition in range(2):
            self.logs.settle(self.topic, partition)

    def follow(self, **options: object) -> Query:
        settings = {
            "startingOffsets": "earliest",
            "admitUpTo": self.checkpoint,
            "kafka__isolation__level": "read_committed",
        }
        return Query(stream_reader(self.logs, subscribe=self.topic, **settings, **options))


@pytest.fixture
def upstream(logs: Logs, tmp_path: Path) -> Upstream:
    return Upstream(logs, tmp_path / "upstream")


def read(query: Query) -> list[str]:
    return sorted(value.decode() for value in query.batch())


def test_a_batch_is_read_once_it_is_done(upstream: Upstream) -> None:
    query = upstream.follow()
    upstream.checkpoint.plan(0, time_ms=5 * SECOND_MS)
    upstream.write(0, ["a"], 5 * SECOND_MS)
    assert read(query) == []
    upstream.write(1, ["b"], 5 * SECOND_MS)
    assert read(query) == []
    upstream.checkpoint.finish(0)
    for partition in range(2):
        upstream.logs.settle(upstream.topic, partition)
    assert read(query) == ["a", "b"]
    assert read(query) == []


def test_a_batch_under_way_holds_nothing_up_that_is_done(upstream: Upstream) -> None:
    query = upstream.follow()
    upstream.batch(0, [["a"], ["b"]], 5 * SECOND_MS)
    upstream.checkpoint.plan(1, time_ms=6 * SECOND_MS)
    upstream.write(0, ["c"], 6 * SECOND_MS)
    with upstream.task(1, ["d"], 6 * SECOND_MS) as task:
        assert read(query) == ["a", "b"]
        task.commit()
    assert read(query) == []
    upstream.checkpoint.finish(1)
    upstream.logs.settle(upstream.topic, 1)
    assert read(query) == ["c", "d"]


def test_a_batch_that_is_done_is_not_read_before_all_its_partitions_have_heard(upstream: Upstream) -> None:
    """Brokers answer that a transaction is committed before its mark is in every partition."""
    query = upstream.follow()
    upstream.checkpoint.plan(0, time_ms=5 * SECOND_MS)
    upstream.write(0, ["a"], 5 * SECOND_MS)
    with upstream.task(1, ["b"], 5 * SECOND_MS) as task:
        upstream.checkpoint.finish(0)
        assert read(query) == []
        task.commit()
    upstream.logs.settle(upstream.topic, 1)
    assert read(query) == ["a", "b"]


def test_the_mark_of_a_task_that_failed_does_not_split_a_batch(upstream: Upstream) -> None:
    """It has the time at which it was written, later than the records that the next attempt writes behind it."""
    query = upstream.follow()
    time_ms = 5 * SECOND_MS
    upstream.checkpoint.plan(0, time_ms=time_ms)
    with upstream.task(0, ["a"], time_ms) as task:
        upstream.write(0, ["b"], time_ms, commit=False)
        upstream.write(1, ["c"], time_ms, commit=False)
        upstream.write(0, ["b"], time_ms)
        upstream.write(1, ["c"], time_ms)
        task.commit()
    upstream.checkpoint.finish(0)
    upstream.checkpoint.plan(1, time_ms=6 * SECOND_MS)
    upstream.write(0, ["d"], 6 * SECOND_MS)
    for partition in range(2):
        upstream.logs.settle(upstream.topic, partition)
    assert read(query) == ["a", "b", "c"]
    upstream.checkpoint.finish(1)
    assert read(query) == ["d"]


def test_a_catch_up_takes_whole_batches_in_their_order_though_partitions_are_skewed(upstream: Upstream) -> None:
    query = upstream.follow(admission="timestamp", maxOffsetsPerTrigger=5)
    groups = []
    for batch_id in range(6):
        # Most of the first batches are in one partition, and most of the last in the other.
        large, small = [f"{batch_id}-{number}" for number in range(3)], [f"{batch_id}-x"]
        upstream.batch(batch_id, [large, small] if batch_id < 3 else [small, large], (batch_id + 1) * SECOND_MS)
        groups.append(sorted(large + small))
    found = []
    while batch := read(query):
        found.append(batch)
    assert found == groups


def test_without_a_limit_all_that_is_done_is_taken_at_once(upstream: Upstream) -> None:
    query = upstream.follow(admission="timestamp")
    for batch_id in range(3):
        upstream.batch(batch_id, [[f"{batch_id}-a"], [f"{batch_id}-b"]], (batch_id + 1) * SECOND_MS)
    assert len(read(query)) == 6


def test_available_now_ends_with_the_last_batch_that_is_done(upstream: Upstream) -> None:
    upstream.batch(0, [["a"], ["b"]], SECOND_MS)
    upstream.checkpoint.plan(1, time_ms=2 * SECOND_MS)
    upstream.write(0, ["c"], 2 * SECOND_MS)
    query = upstream.follow()
    query.reader.prepareForTriggerAvailableNow()
    upstream.batch(1, [[], ["d"]], 2 * SECOND_MS)
    assert read(query) == ["a", "b"]
    assert read(query) == []


def test_available_now_finds_nothing_where_no_batch_is_done(catchment_logs: CatchmentLogs, tmp_path: Path) -> None:
    upstream = Upstream(catchment_logs, tmp_path / "upstream")
    upstream.write(0, ["a"], SECOND_MS)
    for start in (None, {upstream.topic: {"0": 1, "1": 0}}):
        reader = upstream.follow().reader
        reader.prepareForTriggerAvailableNow()
        query = Query(reader, start)
        before = query.start
        assert read(query) == []
        assert query.start == before


def test_brokers_are_asked_again_only_when_another_batch_is_done(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(catchment_logs, tmp_path / "upstream")
    query = upstream.follow()
    upstream.batch(0, [["a"], ["b"]], SECOND_MS)
    assert read(query) == ["a", "b"]
    with monkeypatch.context() as patched:
        patched.setattr(Cluster, "list_offsets", lambda *_, **__: pytest.fail("the brokers are asked"))
        assert read(query) == []
    upstream.batch(1, [["c"], []], 2 * SECOND_MS)
    assert read(query) == ["c"]


def test_available_now_tells_of_what_stays_undecided(upstream: Upstream) -> None:
    upstream.checkpoint.plan(0, time_ms=SECOND_MS)
    with upstream.task(0, ["a"], SECOND_MS) as task:
        upstream.checkpoint.finish(0)
        query = upstream.follow(kafka__default__api__timeout__ms=300)
        with pytest.raises(ClientError, match="stay undecided"):
            query.reader.prepareForTriggerAvailableNow()
        task.abort()


def test_a_query_that_has_read_further_goes_back_for_nothing(catchment_logs: CatchmentLogs, tmp_path: Path) -> None:
    upstream = Upstream(catchment_logs, tmp_path / "upstream")
    upstream.batch(0, [["a"], ["b"]], SECOND_MS)
    upstream.checkpoint.plan(1, time_ms=2 * SECOND_MS)
    upstream.write(0, ["c"], 2 * SECOND_MS)
    ahead = {upstream.topic: {"0": 4, "1": 2}}
    query = Query(upstream.follow().reader, ahead)
    assert read(query) == []
    assert query.start == ahead


def test_a_clock_that_was_set_back_stops_no_query(catchment_logs: CatchmentLogs, tmp_path: Path) -> None:
    upstream = Upstream(catchment_logs, tmp_path / "upstream")
    query = upstream.follow()
    upstream.batch(0, [["a"], []], 9 * SECOND_MS)
    assert read(query) == ["a"]
    upstream.batch(1, [["b"], ["c"]], 5 * SECOND_MS)
    assert read(query) == ["b", "c"]


def test_topics_without_groups_can_be_read_oldest_first(catchment_logs: CatchmentLogs) -> None:
    """Records of many times, a partition far behind the other: what is read of both is of the same times."""
    topic = catchment_logs.topic(partitions=2)
    with Cluster(catchment_logs.bootstrap_servers) as cluster, Producer(cluster) as producer:
        for partition, step in ((0, 1), (1, 10)):
            times = [datetime.fromtimestamp(number * step, tz=UTC) for number in range(1000 // step)]
            rows = pa.table({"value": [b"%d" % (number * step) for number in range(1000 // step)], "timestamp": times})
            producer.write(topic, rows, partition=partition)
        producer.flush()
    query = Query(
        stream_reader(
            catchment_logs, subscribe=topic, startingOffsets="earliest", admission="timestamp", maxOffsetsPerTrigger=110
        )
    )
    last = -1
    total = 0
    while values := [int(value) for value in query.batch()]:
        assert last < min(values)
        assert len(values) <= 110
        last = max(values)
        total += len(values)
    assert total == 1100
