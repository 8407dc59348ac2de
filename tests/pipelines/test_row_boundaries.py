"""Rows on their way through the topics between stages: every type as it was, and topics of JSON as they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from tests.pipelines.city import City, Report

from catchment.client.errors import SettingsError
from catchment.pipelines import Pipeline, Stage, topic
from catchment.pipelines.declaration.specification import OLD_ROWS
from catchment.spark.formats.rows.schema import MARKER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TYPED = """
    id,
    CAST(number AS TINYINT) AS tiny, CAST(number AS SMALLINT) AS small, CAST(number AS INT) AS whole, number,
    CAST(-0.0D AS FLOAT) AS single, CAST('NaN' AS DOUBLE) AS real,
    CAST(number AS DECIMAL(38, 18)) / 7 AS share, number > 1 AS flag, CAST(NULL AS VOID) AS nothing,
    unhex(concat('FF00', hex(number))) AS raw, CAST('0001-01-01' AS DATE) AS day,
    timestamp_micros(number * 1234567) AS moment,
    TIMESTAMP_NTZ '9999-12-31 23:59:59.999999' AS last, CAST(timestamp_micros(number) AS TIMESTAMP_NTZ) AS local,
    make_dt_interval(0, 0, number, 0.000001) AS lasted, make_ym_interval(number, 3) AS age,
    INTERVAL '7' YEAR AS years,
    IF(number IS NULL, NULL, map(number, 'a', -number, NULL)) AS by_number, map('k', array(number, NULL)) AS by_text,
    map(named_struct('x', number, 'y', make_ym_interval(0, 2)), make_ym_interval(0, number)) AS by_struct,
    array(named_struct('in side', number, 'ym', make_ym_interval(1, 1)), NULL) AS inside,
    IF(number > 1, NULL, named_struct('a', 1, 'b', array(map('q', make_ym_interval(0, 5))))) AS perhaps,
    CAST(unhex('FF') AS STRING) AS broken_text, number AS `odd name. ü`
"""


def _typed_pipeline(city: City, select: str = TYPED, **to: Any) -> Pipeline:
    made = Pipeline(city.name, parallelism=2)
    source = topic(city.reports, format="json", schema="id string, number bigint")
    events = made.source(source, name="events")
    own = {"to": topic(f"{city.name}.typed", **to)} if to else {}
    typed = made.stage("typed", events, sql=f"SELECT {select} FROM events", **own)
    counts = "SELECT id, count(*) AS times FROM typed GROUP BY id"
    made.stage("seen", typed, sql=counts, mode="update", key="id", to=topic(f"{city.name}.seen"))
    made.sink(Stage("seen"), topic(f"{city.name}-seen"))
    return made


def _as_text(rows: DataFrame) -> list[str]:
    """Rows in a form that tells zeros of both signs, bytes and intervals apart."""
    shown = rows.selectExpr(
        *(f"CAST(`{name}` AS STRING) AS `{name}`" for name in rows.columns if name != "raw"), "hex(raw)"
    )
    return sorted(str(row) for row in shown.collect())


def test_every_type_crosses_a_boundary_unchanged(city: City) -> None:
    from catchment.pipelines.execution.rows.boundaries import read_boundary, read_boundary_once

    events: list[dict[str, Any]] = [{"id": "a", "number": 1}, {"id": "b", "number": 2}, {"id": "c", "number": None}]
    city.send([json.dumps(one).encode() for one in events], 0)
    pipeline = _typed_pipeline(city)
    run = city.drain(pipeline)
    given = city.spark.createDataFrame([(one["id"], one["number"]) for one in events], "id string, number bigint")
    given.createOrReplaceTempView("given")
    expected = city.spark.sql(f"SELECT {TYPED} FROM given")

    [topic_name] = [one.topic for one in run.context.graph.topics() if one.topic.endswith(".typed")]
    records = city.rows(topic_name)
    assert all(one["value"].startswith(MARKER) for one in records)
    # As far as partitions go: what is behind their ends is the markers of transactions.
    at_rest = read_boundary_once(run.context, "typed", {topic_name: {"0": -1, "1": -1}})
    assert at_rest.dtypes == expected.dtypes
    assert _as_text(at_rest) == _as_text(expected)

    stream = read_boundary(run.context, "typed", "onlooker")
    query = stream.writeStream.format("memory").queryName("onlooker").trigger(availableNow=True).start()
    query.awaitTermination()
    assert _as_text(city.spark.table("onlooker")) == _as_text(expected)

    assert all(one["value"].startswith(MARKER) for one in city.rows(f"{city.name}.seen")), "changed rows as well"
    counted = sorted(city.values(f"{city.name}-seen"), key=lambda row: str(row["id"]))
    assert counted == [{"id": name, "times": 1} for name in "abc"]


def test_json_keeps_the_microseconds_of_times_without_a_zone(city: City) -> None:
    city.send([b'{"id": "a", "number": 1}'], 0)
    select = "id, CAST(timestamp_micros(number) AS TIMESTAMP_NTZ) AS local"
    city.drain(_typed_pipeline(city, select, format="json"))
    assert city.values(f"{city.name}.typed") == [{"id": "a", "local": "1970-01-01T00:00:00.000001"}]


@pytest.mark.parametrize(
    ("select", "to", "said"),
    [
        ("id, parse_json('1') AS v", {}, "column v of stage typed is of type variant"),
        ("id, id COLLATE UTF8_LCASE AS c", {}, "column c of stage typed is a string collate UTF8_LCASE"),
        ("id, array(make_interval(1)) AS i", {}, r"column i\[\] of stage typed is of type interval"),
        ("id, unhex('FF') AS raw", {"format": "json"}, "column raw of stage typed is of type binary"),
        ("id, map(1, 2) AS m", {"format": "json"}, "column m of stage typed is of type map<int,int>"),
        ("id, id", {}, "column id of stage typed is there more than once"),
    ],
)
def test_plan_names_the_columns_that_cannot_cross(city: City, select: str, to: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        city.plan(_typed_pipeline(city, select, **to))
    assert ("format: json" in str(refused.value)) == bool(to)


def _reports(city: City, columns: str = "id, at", **to: Any) -> Pipeline:
    """Reports through two topics, of which the second may be named, into a third."""
    version = to.pop("version", 1)
    made = Pipeline(city.name, version=version, parallelism=2)
    source = topic(city.reports, format="json", schema="id string, at timestamp")
    reports = made.source(source, name="reports", event_time="at", lateness="20 seconds")
    copies = made.stage("copies", reports, sql=f"SELECT {columns} FROM reports", to=topic(f"{city.name}.copies", **to))
    made.sink(copies, topic(f"{city.name}-out{version}"), name="out")
    return made


def _forget_formats(city: City) -> None:
    """The plan as it was kept before there were formats to choose from."""
    kept = json.loads(city.home.plan_file.read_text())
    for made in (one for several in kept["queries"].values() for one in several):
        del made["earlier_schemas"], made["signature"]["rows_as"], made["signature"]["row_schema"]
    city.home.plan_file.write_text(json.dumps(kept))


def test_a_pipeline_goes_on_with_the_json_that_its_topics_hold(city: City) -> None:
    from catchment.pipelines.planning import Refused

    city.send([Report("a", 1), Report("b", 2)], 5)
    city.drain_as_planned(_reports(city), OLD_ROWS)
    _forget_formats(city)

    city.send([Report("c", 3)], 6)
    assert set(city.drain_as_planned(_reports(city)).values()) == {"reuse"}
    for boundary in ("copies", "reports-input"):
        values = [row["value"] for row in city.rows(f"{city.name}.{boundary}")]
        assert sorted(json.loads(value)["id"] for value in values) == ["a", "b", "c"], boundary
    assert sorted(row["id"] for row in city.values(f"{city.name}-out1")) == ["a", "b", "c"], (
        "nothing lost, nothing twice"
    )

    with pytest.raises(Refused, match="its topic holds JSON, and Avro is asked for") as asked:
        city.plan(_reports(city, format="avro"))
    assert "version to 2" in str(asked.value)
    with pytest.raises(Refused, match=r"JSON, which does not carry column raw: it is of type binary"):
        city.plan(_reports(city, "id, at, unhex('FF') AS raw"))

    assert city.drain_as_planned(_reports(city, version=2, format="avro"))["copies"] == "new version"
    fresh = [row["value"] for row in city.rows(f"{city.name}.copies.v2")]
    assert len(fresh) == 3
    assert all(value.startswith(MARKER) for value in fresh)


def test_columns_may_come_and_go_under_a_topic_of_avro(city: City) -> None:
    city.send([Report("a", 1)], 5)
    city.drain_as_planned(_reports(city))
    city.send([Report("b", 2)], 6)
    assert set(city.drain_as_planned(_reports(city, "at, 1 AS extra, upper(id) AS id")).values()) == {"reuse"}
    city.send([Report("c", 3)], 7)
    city.drain_as_planned(_reports(city, "id, at, false AS again"))
    later = _reports(city, "id, at, false AS again")
    later.sink(Stage("copies"), topic(f"{city.name}-all"), name="all")
    city.drain_as_planned(later)
    found = sorted(city.values(f"{city.name}-all"), key=lambda row: str(row["id"]))
    assert [(row["id"], row.get("again")) for row in found] == [("B", None), ("a", None), ("c", False)]
