"""Failures inside Spark, as Spark itself reports them: shortened, and classified by their cause."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind, classify
from catchment.pipelines.execution.sinks import BatchHandler, for_each_batch
from catchment.pipelines.execution.source_stage import STOPPED_BY_CHECK
from catchment.pipelines.execution.spark_errors import cause_of, condition_of
from catchment.pipelines.stores.store_errors import StoreAway

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

Fail = Callable[[BatchHandler], Failure]


@pytest.fixture
def fail(spark: SparkSession, tmp_path: Path) -> Fail:
    """A query over one row, whose batches go to a function; how it failed."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_text("one\n")

    def run(handler: BatchHandler) -> Failure:
        rows = spark.readStream.text(str(tmp_path / "in"))
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(for_each_batch(handler)).trigger(availableNow=True).start()
        with pytest.raises(Exception, match="STREAM_FAILED"):
            query.awaitTermination(60)
        error = query.exception()
        assert error is not None
        return classify(error)

    return run


def test_a_store_that_is_away(fail: Fail) -> None:
    def handle(rows: DataFrame, batch_id: int) -> bool:
        raise StoreAway("the store is away", "Start it.")

    failure = fail(handle)

    assert (failure.kind, failure.exit_code) == (FailureKind.STORE_AWAY, ExitCode.AWAY)
    assert failure.message.startswith("the store is away. Start it.")


def test_a_stack_that_is_long_does_not_hide_the_error(fail: Fail) -> None:
    def handle(rows: DataFrame, batch_id: int) -> bool:
        try:
            rows.selectExpr("raise_error('boom')").collect()
        except Exception as error:
            # The text of an error of the JVM, with its stacks and causes, is as long as this.
            raise RuntimeError(
                f"py4j.protocol.Py4JJavaError: An error occurred while calling o1.c {'x' * 50_000}"
            ) from error
        return True

    failure = fail(handle)

    assert failure.kind is FailureKind.PERMANENT
    assert failure.exit_code is ExitCode.FAILED


def test_a_check_that_stops_the_pipeline(fail: Fail) -> None:
    def handle(rows: DataFrame, batch_id: int) -> bool:
        rows.selectExpr(f"raise_error('{STOPPED_BY_CHECK}: failed check: crew > 0')").collect()
        return True

    failure = fail(handle)

    assert failure.exit_code is ExitCode.STOPPED_BY_CHECK
    assert failure.message == f"{STOPPED_BY_CHECK}: failed check: crew > 0"


def test_what_a_row_says_is_not_taken_for_what_happened_to_spark(fail: Fail) -> None:
    said = "Traceback (most recent call last): Broken pipe, Connection reset, SparkContext was shut down"

    def handle(rows: DataFrame, batch_id: int) -> bool:
        rows.selectExpr(f"raise_error('{said}')").collect()
        return True

    failure = fail(handle)

    assert (failure.kind, failure.exit_code) == (FailureKind.PERMANENT, ExitCode.FAILED)
    assert failure.message == said


def test_a_plan_that_is_wrong_is_known_by_its_condition(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as raised:
        spark.range(1).selectExpr("`Broken pipe`")

    assert condition_of(raised.value) == cause_of(raised.value).kind == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    failure = classify(raised.value, is_building=True)
    assert (failure.kind, failure.exit_code) == (FailureKind.PERMANENT, ExitCode.CONFIGURATION)


@pytest.mark.parametrize("taken_by", ["collect", "toArrow"])
def test_a_worker_that_is_killed(fail: Fail, spark: SparkSession, taken_by: str) -> None:
    from pyspark.sql import functions as F

    killed = F.udf(lambda text: os.kill(os.getpid(), signal.SIGKILL), "string")

    def handle(rows: DataFrame, batch_id: int) -> bool:
        getattr(rows.select(killed("value")), taken_by)()
        return True

    failure = fail(handle)

    assert failure.kind is FailureKind.WORK_LOST
    assert failure.message.startswith("work was lost: RuntimeError: Python worker exited unexpectedly")
    assert "\tat " not in failure.message


def test_a_process_that_plans_and_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Dying(DataSourceStreamReader):
        @override
        def initialOffset(self) -> dict[str, int]:
            return {"offset": 0}

        @override
        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
            os.kill(os.getpid(), signal.SIGKILL)
            return {"offset": 1}

        @override
        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return []

        @override
        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return iter(())

    class Source(DataSource):
        @classmethod
        @override
        def name(cls) -> str:
            return "dying"

        @override
        def schema(self) -> str:
            return "number int"

        @override
        def streamReader(self, schema: StructType) -> Dying:
            return Dying()

    spark.dataSource.register(Source)
    rows = spark.readStream.format("dying").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match="STREAM_FAILED"):
        query.awaitTermination(60)
    error = query.exception()
    assert error is not None

    failure = classify(error)

    assert failure.kind is FailureKind.WORK_LOST
    assert failure.message == "work was lost: java.io.EOFException"


def test_an_error_in_a_function_of_the_author_is_reported_with_its_line(fail: Fail, spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    rate = F.udf(lambda text: int(text), "int")

    def handle(rows: DataFrame, batch_id: int) -> bool:
        rows.select(rate("value")).collect()
        return True

    failure = fail(handle)

    assert failure.exit_code is ExitCode.FAILED
    assert failure.message.startswith(
        "ValueError: invalid literal for int() with base 10: 'one' (test_batch_errors.py:"
    )
