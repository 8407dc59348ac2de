"""Sinks that are topics: exactly the rows of their stage, under its key, in the order that they had."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from tests.client.settled import read_settled
from tests.pipelines.city import DISTRICTS, SCHEMA, City, Report

from catchment.pipelines import Pipeline, Source, Stage, topic

Rows = dict[str | None, list[Any]]


def two_days(city: City, pipeline: Pipeline) -> list[Report]:
    """Reports on each of two runs, with one of them twice there; what was sent, each once."""
    first = [Report(f"a{n}", n, DISTRICTS[n % 3], ("fire", "flood")[n % 2]) for n in range(20)]
    second = [Report(f"b{n}", 20 + n, DISTRICTS[n % 3], "fire") for n in range(20)]
    for crew, reports in enumerate((first, second)):
        city.send([*reports, reports[3]], seconds=40 + crew)
        city.send_crew("hills", crew)
        city.drain(pipeline)
    return [*first, *second]


def cleaned(city: City) -> tuple[Pipeline, Source, Stage]:
    """A pipeline with the reports as they come, and each of them once."""
    made = Pipeline(city.name, parallelism=2)
    events = topic(city.reports, schema=SCHEMA)
    reports = made.source(events, name="reports", event_time="at", lateness="20 seconds")
    clean = made.stage("clean", reports, dedupe="id", to=topic(f"{city.name}.clean", key="district"))
    return made, reports, clean


def by_key(city: City, name: str, column: str) -> Rows:
    """A column of the committed records of a topic, by key and in order."""
    found: Rows = defaultdict(list)
    partitions = defaultdict(set)
    records = read_settled(name, city.servers, ["partition", "offset", "key", "value"]).to_pylist()
    for one in sorted(records, key=lambda record: (record["partition"], record["offset"])):
        key = None if one["key"] is None else one["key"].decode()
        found[key].append(city.row_of(one["value"])[column])
        partitions[key].add(one["partition"])
    assert all(len(places) == 1 for key, places in partitions.items() if key is not None), "a key has one partition"
    return dict(found)


def grouped(reports: list[Report], key: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for one in reports:
        found[str(getattr(one, key))].append(one.id)
    return {name: sorted(ids) for name, ids in found.items()}


def test_events_go_to_a_topic_under_its_key_or_that_of_their_own_topic_and_in_its_order(city: City) -> None:
    made, reports, clean = cleaned(city)
    crews = made.source(topic(city.crews, schema="district string, crew int"), name="crews")
    made.sink(clean, topic(f"{city.name}-default"))
    made.sink(clean, topic(f"{city.name}-own", key=["kind", "district"], partitions=3))
    made.sink(reports, topic(f"{city.name}-events"))
    made.sink(crews, topic(f"{city.name}-crews-copied"))
    sent = two_days(city, made)

    default = by_key(city, f"{city.name}-default", "id")
    assert {key: sorted(ids) for key, ids in default.items()} == grouped(sent, "district")
    assert default == by_key(city, f"{city.name}.clean", "id"), "in the order of the stage's own topic"

    own = by_key(city, f"{city.name}-own", "id")
    assert sorted(one for ids in own.values() for one in ids) == sorted(one.id for one in sent)
    assert '{"kind":"flood","district":"hills"}' in own

    events = by_key(city, f"{city.name}-events", "id")
    assert events["7"] == ["a7", "b7"], "records are sent under their number, and keep that key"
    assert sum(len(ids) for ids in events.values()) == len(sent) + 2, "duplicates are kept"
    assert by_key(city, f"{city.name}-crews-copied", "crew") == {"hills": [0, 1]}


def test_rows_of_a_step_go_to_a_topic_under_the_key_of_the_stage_and_each_change_once(city: City) -> None:
    made, _, clean = cleaned(city)
    fires = made.stage("fires", clean, sql="SELECT * FROM clean WHERE kind = 'fire'", key="district", event_time="at")
    counted: dict[str, Any] = {
        "sql": "SELECT district, count(*) AS n FROM fires GROUP BY district",
        "mode": "update",
        "key": "district",
    }
    counts = made.stage("counts", fires, **counted)
    told = made.stage("told", fires, **counted, to=topic(f"{city.name}.told"))
    made.sink(fires, topic(f"{city.name}-fires-copied"))
    made.sink(counts, topic(f"{city.name}-changes"))
    made.sink(told, topic(f"{city.name}-changelog"))
    sent = [one for one in two_days(city, made) if one.kind == "fire"]

    step = by_key(city, f"{city.name}-fires-copied", "id")
    assert {key: sorted(ids) for key, ids in step.items()} == grouped(sent, "district")
    assert step == by_key(city, f"{city.name}.fires", "id")

    totals = {district: len(ids) for district, ids in grouped(sent, "district").items()}
    for name in ("changes", "changelog"):
        found = by_key(city, f"{city.name}-{name}", "n")
        assert {key: numbers[-1] for key, numbers in found.items()} == totals
        assert all(numbers == sorted(set(numbers)) for numbers in found.values()), "each change once, in order"
