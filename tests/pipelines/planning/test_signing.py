"""What Spark's plan says a stage's state consists of: the same for the same state, another for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.pipelines.emergency import YAML, write_emergency
from typing_extensions import override

from catchment.client.errors import SettingsError
from catchment.pipelines import Pipeline, lake, store, topic
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.planning.comparing import differences

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from catchment.pipelines.planning import Current, Signature

Function = Callable[..., Any]
SCHEMA = "id string, district string, n int, at timestamp"


def _signed(spark: SparkSession, graph: Graph, folder: Path) -> Current:
    from catchment.pipelines.planning.signing import signatures

    return signatures(spark, graph, Home(folder, "city"), folder)


def _signature(
    spark: SparkSession, function: Function, *, mode: Literal["append", "update"] = "append", inputs: int = 1
) -> Signature:
    """That of a stage, kept in a store."""
    city = Pipeline("city")
    sources = [
        city.source(topic(name, schema=SCHEMA), event_time="at", lateness="20 seconds")
        for name in ("reports", "readings")[:inputs]
    ]
    key = "district" if mode == "update" else None
    stage = city.stage(sources[0], *sources[1:], mode=mode, key=key)(function)
    city.sink(stage, store("sqlite:///city.db", table="board"), name="board")
    return _signed(spark, Graph(city.check()), Path()).queries["outlet-board"]


def _said(before: Signature, after: Signature) -> list[str]:
    return list(differences(before, after, {}))


def _counts(length: str = "10 seconds", *more: str) -> Function:
    def counts(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        grouped = rows.groupBy("district", F.window("at", length, *more).alias("w"))
        return grouped.count().select("district", "w.start", "count")

    return counts


def test_both_forms_of_the_guide_have_the_same_state(spark: SparkSession, tmp_path: Path) -> None:
    of_yaml = _signed(spark, Graph(load(write_emergency(tmp_path)).specification), tmp_path)
    of_python = _signed(spark, Graph(load(write_emergency(tmp_path, suffix=".py")).specification), tmp_path)
    assert of_yaml == of_python
    board = of_yaml.queries["outlet-board-store-board"]
    assert [(part.name, part.what) for part in board.state[0].parts] == [
        ("key district", "string"),
        ("key window", "of at, 10 seconds"),
        ("aggregate count(1)", "bigint"),
    ]
    assert board.uses == ("at", "district")
    assert board.columns["start"] == "timestamp"
    assert (board.state[1].kind, [part.name for part in board.state[1].parts]) == (
        "table",
        ["key district", "key start"],
    )
    clean = of_yaml.queries["clean"]
    assert [part.name for part in clean.state[0].parts] == ["key id"]
    lake = of_yaml.queries["outlet-clean-lake-reports"].target
    assert lake is not None
    assert (lake.name, lake.stage, lake.has_versions) == ("lake lake/reports", "clean", False)


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (("20 seconds",), "aggregation: key window was of at, 10 seconds and is of at, 20 seconds"),
        (
            ("10 seconds", "5 seconds"),
            "aggregation: key window was of at, 10 seconds and is of at, 10 seconds, 5 seconds",
        ),
        (
            ("10 seconds", "10 seconds", "3 seconds"),
            "aggregation: key window was of at, 10 seconds and is of at, 10 seconds, 3 seconds",
        ),
    ],
)
def test_another_window_is_another_state(spark: SparkSession, length: tuple[str, ...], said: str) -> None:
    assert _said(_signature(spark, _counts()), _signature(spark, _counts(*length))) == [said]


def test_what_is_done_before_and_after_the_state_may_change(spark: SparkSession) -> None:
    def filtered(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        counts = rows.where("n > 3").groupBy("district", F.window("at", "10 seconds").alias("w")).count()
        return counts.select("district", "w.start", "count", (F.col("count") * 2).alias("twice"))

    assert _said(_signature(spark, _counts()), _signature(spark, filtered)) == []


def test_aggregates_are_reported_by_name_and_order(spark: SparkSession) -> None:
    def sums(*names: str) -> Function:
        def stage(rows: DataFrame) -> DataFrame:
            from pyspark.sql import functions as F

            found = {"sum": F.sum("n"), "max": F.max("n"), "sessions": F.count_distinct("id"), "half": F.avg("n")}
            return rows.groupBy("district").agg(*(found[name].alias(name) for name in names)).select("district")

        return stage

    before = _signature(spark, sums("sum", "max"), mode="update")
    assert _said(before, _signature(spark, sums("sum", "max"), mode="update")) == []
    more = _said(before, _signature(spark, sums("sum", "max", "half"), mode="update"))
    assert more == ["aggregation: aggregate avg(n) (double) is new"]
    fewer = _said(before, _signature(spark, sums("sum"), mode="update"))
    assert fewer == ["aggregation: aggregate max(n) (int) is gone"]
    turned = _said(before, _signature(spark, sums("max", "sum"), mode="update"))
    assert len(turned) == 1
    assert turned[0].startswith("aggregation: the order was key district, aggregate sum(n)")


def test_sessions_deduplication_and_joins_of_streams_are_seen(spark: SparkSession) -> None:
    def sessions(gap: str) -> Function:
        def stage(rows: DataFrame) -> DataFrame:
            from pyspark.sql import functions as F

            return rows.groupBy("district", F.session_window("at", gap).alias("w")).count().select("district", "count")

        return stage

    def once(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicatesWithinWatermark(["id"])

    def joined(kind: str) -> Function:
        def stage(reports: DataFrame, readings: DataFrame) -> DataFrame:
            from pyspark.sql import functions as F

            near = F.expr("a.district = b.district AND b.at BETWEEN a.at AND a.at + INTERVAL 5 SECONDS")
            return reports.alias("a").join(readings.alias("b"), near, kind).select("a.id", "a.district")

        return stage

    changed = _said(_signature(spark, sessions("10 seconds")), _signature(spark, sessions("20 seconds")))
    assert len(changed) == 1
    assert changed[0].startswith("aggregation: key session_window was of at")
    assert _said(_signature(spark, sessions("10 seconds")), _signature(spark, sessions("10 seconds"))) == []
    dedupe = _signature(spark, once).state[0]
    assert (dedupe.kind, [part.name for part in dedupe.parts]) == ("deduplication within the watermark", ["key id"])
    inner, outer = (_signature(spark, joined(kind), inputs=2) for kind in ("inner", "leftouter"))
    assert _said(inner, outer) == ["join of streams: kind was inner and is left outer"]
    assert _said(inner, _signature(spark, joined("inner"), inputs=2)) == []


def test_a_join_with_a_table_has_no_state(spark: SparkSession, tmp_path: Path) -> None:
    text = YAML[: YAML.index("  board:")] + (
        "  board: {sql: SELECT * FROM clean JOIN crews USING (district)}\nsinks:\n  - {from: board, topic: board}\n"
    )
    signed = _signed(spark, Graph(load(write_emergency(tmp_path, text=text)).specification), tmp_path)
    assert signed.queries["outlet-board-topic-board"].state == ()


def test_arbitrary_state_is_seen_by_its_keys_and_timers(spark: SparkSession) -> None:
    def stateful(key: str, times: str) -> Function:
        def stage(rows: DataFrame) -> DataFrame:
            from pyspark.sql.streaming.stateful_processor import StatefulProcessor

            class Nothing(StatefulProcessor):
                def init(self, handle: Any) -> None: ...

                @override
                def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
                    return iter(())

                def close(self) -> None: ...

            return rows.groupBy(key).transformWithState(Nothing(), "district string", "append", times)

        return stage

    before = _signature(spark, stateful("district", "None"))
    assert [part.name for part in before.state[0].parts] == ["key district", "times", "mode"]
    assert _said(before, _signature(spark, stateful("district", "None"))) == []
    assert _said(before, _signature(spark, stateful("id", "None")))[:2] == [
        "arbitrary state: key district (string) is gone",
        "arbitrary state: key id (string) is new",
    ]
    assert len(_said(before, _signature(spark, stateful("district", "ProcessingTime")))) == 1


def test_an_alert_by_absence_has_timers(spark: SparkSession, tmp_path: Path) -> None:
    text = YAML.replace("when: count > 40 AND crew < 3", "absent_for: 5 minutes").replace(
        "from: board\n", "from: clean\n"
    )
    signed = _signed(spark, Graph(load(write_emergency(tmp_path, text=text)).specification), tmp_path)
    timers = signed.queries["outlet-alert-burst"].state
    assert [(one.kind, [part.name for part in one.parts]) for one in timers] == [("timers", ["key district"])]


def test_a_stage_that_names_a_column_which_is_not_there_is_refused(spark: SparkSession) -> None:
    def wrong(rows: DataFrame) -> DataFrame:
        return rows.select("nonsense")

    with pytest.raises(
        SettingsError, match=r"stages.wrong.function: there is no column nonsense; did you mean one of n, "
    ):
        _signature(spark, wrong)


def test_everything_that_writes_rows_says_where_and_what_starts_from_scratch_beside_the_old_there(
    spark: SparkSession,
) -> None:
    city = Pipeline("city")
    reports = city.source(topic("reports", schema=SCHEMA), event_time="at", lateness="20 seconds")
    city.sink(reports, lake("lake/all"), name="lake")
    city.sink(reports, topic("copies"), name="copies")
    city.sink(reports, store("sqlite:///x.db", table="x"), name="store")
    signed = _signed(spark, Graph(city.check()), Path())
    targets = {query: one.target for query, one in signed.queries.items()}
    assert {query: (one.name, one.stage, one.has_versions) for query, one in targets.items() if one} == {
        "reports-input": ("topic city.reports-input", "reports-input", True),
        "outlet-lake": ("lake lake/all", "reports", False),
        "outlet-copies": ("topic copies", "reports", False),
        "outlet-store": ("table x of sqlite:///x.db", "reports", True),
    }


def test_a_table_has_the_key_of_its_stage_with_code_or_without(spark: SparkSession) -> None:
    city = Pipeline("city")
    reports = city.source(topic("reports", schema=SCHEMA), event_time="at", lateness="20 seconds")
    last = city.stage("last", reports, key="id")
    named = city.stage("named", last, sql="SELECT * FROM last", key="district")
    for stage in (reports, last, named):
        city.sink(stage, store("sqlite:///x.db", table="x"), name=stage.name)
    city.sink(last, store("sqlite:///x.db", table="y", key="n"), name="own")
    signed = _signed(spark, Graph(city.check()), Path())
    tables = {name: signed.queries[f"outlet-{name}"].state[-1] for name in ("reports", "last", "named", "own")}
    assert {name: [part.name for part in one.parts] for name, one in tables.items()} == {
        "reports": [],
        "last": ["key id"],
        "named": ["key district"],
        "own": ["key n"],
    }


def visits(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy("district", F.session_window("at", "10 seconds").alias("w")).count()


def by_district(rows: DataFrame) -> DataFrame:
    return rows.groupBy("district").count()


def in_order(rows: DataFrame) -> DataFrame:
    return rows.orderBy("n")


@pytest.mark.parametrize(
    ("function", "mode", "said"),
    [
        (visits, "update", "stage visits as a stream: .*not supported for session window.*Its mode is update"),
        (by_district, "append", "stage by_district as a stream: .*without watermark.*Its mode is append"),
        (in_order, "append", "stage in_order as a stream: Sorting is not supported"),
    ],
)
def test_what_spark_refuses_of_a_stream_is_reported_by_the_plan(
    spark: SparkSession, function: Function, mode: Literal["append", "update"], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        _signature(spark, function, mode=mode)
