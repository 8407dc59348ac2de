"""SQL of a stage reads its inputs by any name that they may have, and nothing of another stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from catchment.pipelines.declaration.specification import Stage
from catchment.pipelines.execution.stages import sql_rows
from catchment.pipelines.realtime.query import RealtimeSource, staged_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL = "WITH large AS (SELECT id FROM `my-stage` WHERE id > 1) SELECT id, (SELECT max(id) FROM `my-stage`) m FROM large"


def test_a_name_with_a_hyphen_is_read_in_backticks_and_is_gone_afterwards(spark: SparkSession) -> None:
    rows = sql_rows(spark, _SQL, {"my-stage": spark.range(4)})
    assert not spark.catalog.tableExists("`my-stage`")
    assert [tuple(row) for row in rows.collect()] == [(2, 3), (3, 3)], "Spark has looked it up before it was gone"


def test_a_stage_does_not_see_what_another_reads(spark: SparkSession) -> None:
    sql_rows(spark, "SELECT * FROM clean JOIN crews USING (id)", {"clean": spark.range(1), "crews": spark.range(1)})
    with pytest.raises(AnalysisException, match="crews"):
        sql_rows(spark, "SELECT * FROM clean JOIN crews USING (id)", {"clean": spark.range(1)})
    assert not spark.catalog.tableExists("clean")


def test_stages_of_a_real_time_alert_read_each_other_in_the_same_way(spark: SparkSession) -> None:
    stages = [
        ("large-ones", Stage.model_validate({"from": "all-events", "sql": "SELECT id FROM `all-events` WHERE id > 1"})),
        ("doubled", Stage.model_validate({"from": "large-ones", "sql": "SELECT id * 2 AS id FROM `large-ones`"})),
    ]
    rows = staged_rows(spark.range(4).toDF("id"), RealtimeSource("all-events", "events", "id int"), stages)
    assert [row["id"] for row in rows.collect()] == [4, 6]
    assert not any(map(spark.catalog.tableExists, ("`all-events`", "`large-ones`")))
