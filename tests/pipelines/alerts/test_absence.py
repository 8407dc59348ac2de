"""Silences: one alert for each, none for a key that has rows, and none because the query was not running."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.logs import CatchmentLogs
from tests.pipelines.alerts.alert_world import connection, new_rule

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues
from typing_extensions import override

from catchment.pipelines.alerts.absence import SilenceWatch, absent_rows
from catchment.pipelines.alerts.writer import AlertWriter
from catchment.pipelines.execution.sinks import for_each_batch
from catchment.spark.launch.settings import ROCKSDB, STATE_STORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TERM_MS = 10_000
State = tuple[int | None, int, bool]


class Key(StatefulProcessorHandle):
    """One key's state and timers, as Spark keeps them."""

    def __init__(self) -> None:
        self.state: State | None = None
        self.timers_ms: set[int] = set()
        self._watch = SilenceWatch(["district", "seen_us", "absent_ms"], TERM_MS)
        self._watch.init(self)

    @override
    def getValueState(self, stateName: str, schema: object, ttlDurationMs: int | None = None) -> Any:
        return self

    def get(self) -> State | None:
        return self.state

    def update(self, state: State) -> None:
        self.state = state

    def clear(self) -> None:
        self.state = None

    @override
    def registerTimer(self, expiryTimestampMs: int) -> None:
        self.timers_ms.add(expiryTimestampMs)

    @override
    def deleteTimer(self, expiryTimestampMs: int) -> None:
        self.timers_ms.remove(expiryTimestampMs)

    def hear(self, now_ms: int, *times_us: int | None) -> None:
        rows = iter([{"seen_us": time_us} for time_us in times_us])
        assert list(self._watch.handleInputRows(("Harbour",), rows, TimerValues(now_ms, -1))) == []

    def look(self, now_ms: int) -> list[Any]:
        """What comes of the timers that are due."""
        found: list[Any] = []
        for at_ms in sorted(one for one in self.timers_ms if one <= now_ms):
            expired = self._watch.handleExpiredTimer(("Harbour",), TimerValues(now_ms, -1), ExpiredTimerInfo(at_ms))
            found += [tuple(row) for row in expired]
            self.timers_ms.discard(at_ms)
        return found


def test_a_key_is_reported_once_after_its_term_and_leaves_no_state() -> None:
    key = Key()
    key.hear(1_000, 5, 7, 6)
    assert key.look(1_000 + TERM_MS - 1) == []
    assert key.look(1_000 + TERM_MS + 20) == [("Harbour", 7, TERM_MS + 20)]
    assert (key.state, key.timers_ms) == (None, set())


def test_every_row_gives_a_new_term_and_the_newest_time_counts() -> None:
    key = Key()
    key.hear(0, 50)
    key.hear(TERM_MS - 1, 40, None)
    assert key.timers_ms == {2 * TERM_MS - 1}
    assert key.look(2 * TERM_MS - 1) == [("Harbour", 50, TERM_MS)]


def test_after_the_query_was_away_a_key_has_one_more_term_and_only_one() -> None:
    key = Key()
    key.hear(0, 1)
    back_ms = 3_600_000
    assert key.look(back_ms) == []
    assert key.look(back_ms + TERM_MS - 1) == []
    assert key.look(back_ms + TERM_MS + 3_600_000) == [("Harbour", 1, TERM_MS + 3_600_000)]
    key.hear(back_ms, 2)
    assert key.look(back_ms + TERM_MS) == [("Harbour", 2, TERM_MS)]


@pytest.fixture
def spark_with_timers(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(STATE_STORE, None)
    spark.conf.set(STATE_STORE, ROCKSDB)
    yield spark
    spark.conf.unset(STATE_STORE) if before is None else spark.conf.set(STATE_STORE, before)


def test_a_silent_key_is_reported_in_spark_and_one_that_is_heard_is_not(
    spark_with_timers: SparkSession, catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    source = catchment_logs.topic()
    rule = new_rule(catchment_logs, name="silent", when="true", event_time="last_seen", message="{district} is silent")
    heard = (
        spark_with_timers.readStream.format("catchment")
        .option("kafka.bootstrap.servers", catchment_logs.bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("string(value) AS district", "timestamp AS at")
    )
    catchment_logs.fill(source, [b"Harbour", b"Hill", b"Harbour"])
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        query = (
            absent_rows(heard, ["district"], "at", absent_for_ms=4_000)
            .writeStream.foreachBatch(for_each_batch(sink.handle))
            .option("checkpointLocation", str(tmp_path))
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        try:
            deadline_s = time.monotonic() + 90
            while sink.counts.fired == 0:
                assert time.monotonic() < deadline_s
                assert query.exception() is None, query.exception()
                catchment_logs.fill(source, [b"Hill"])
                time.sleep(0.2)
        finally:
            query.stop()
    found = [json.loads(value or b"") for value in catchment_logs.settled_values(rule.topics[0])]
    assert [(one["message"], one["key"]) for one in found] == [("Harbour is silent", {"district": "Harbour"})]
    assert found[0]["row"]["absent_ms"] >= 4_000
