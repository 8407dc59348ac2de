"""Joins and sessions whose code changes: what their state remembers is used by the new code, or the change is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.event_time.questions import ANSWERED, PAIRS, SESSIONS, Question
from tests.pipelines.event_time.stories import SECOND_US, Event
from tests.pipelines.event_time.town import Town

from catchment.pipelines import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LATENESS = {"calls": "20 seconds", "visits": "20 seconds"}


def event(serial: int, seconds: int, drain: int, district: str = "harbour") -> Event:
    return Event(serial, f"e{serial}", district, seconds * SECOND_US, seconds * SECOND_US, 0, drain)


def with_wait(calls: DataFrame, visits: DataFrame) -> DataFrame:
    """The same join of fewer rows, with a column more."""
    from pyspark.sql import functions as F

    assert callable(PAIRS.stage)
    pairs = PAIRS.stage(calls.where("district <> 'hills'"), visits)
    return pairs.withColumn("note", F.concat_ws("-", "call", "visit"))


def by_minute(calls: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    counts = calls.groupBy("district", F.session_window("moment", "1 minute").alias("w")).count()
    return counts.select("district", "w.start", "w.end", "count")


def asking(
    town: Town, pairs: Question = PAIRS, answered: Question = ANSWERED, sessions: Question = SESSIONS
) -> Pipeline:
    return town.asking([pairs, answered, sessions], LATENESS)


@pytest.mark.timeout(300)
def test_joins_and_sessions_keep_their_state_through_a_change_that_is_allowed(town: Town) -> None:
    from catchment.pipelines.planning import Refused

    town.tell("calls", [event(0, 100, 0), event(1, 101, 0, "hills")])
    town.tell("visits", [event(0, 90, 0)])
    assert set(town.drain_as_planned(asking(town)).values()) == {"new"}
    assert town.answer(PAIRS).num_rows == 0

    changed = asking(town, pairs=replace(PAIRS, stage=with_wait))
    town.tell("visits", [event(1, 103, 1), event(2, 104, 1, "hills")])
    town.tell("calls", [event(2, 105, 1)])
    assert set(town.drain_as_planned(changed).values()) == {"reuse"}
    found = town.answer(PAIRS).sort_by("call").to_pydict()
    assert found["note"] == ["e0-e1", "e1-e2", "e2-e1"], "calls of the run before are found, hills among them"

    longer = ANSWERED.oracle.replace("INTERVAL 4 SECONDS", "INTERVAL 9 SECONDS")
    refused_pipeline = asking(
        town, answered=replace(ANSWERED, stage=longer), sessions=replace(SESSIONS, stage=by_minute)
    )
    with pytest.raises(Refused) as refused:
        town.plan(refused_pipeline)
    assert set(refused.value.refused) == {"outlet-answered", "outlet-sessions"}

    town.tell("calls", [event(3, 500, 2, "the end")])
    town.tell("visits", [event(3, 500, 2, "the end")])
    assert set(town.drain_as_planned(changed).values()) == {"reuse"}
    sessions = town.answer(SESSIONS)
    assert sorted(sessions.column("count").to_pylist()) == [1, 2], "a session goes on that began in the run before"
    answers = town.answer(ANSWERED).to_pylist()
    assert sorted((one["call"], one["visit"]) for one in answers if one["district"] != "the end") == [
        ("e0", "e1"),
        ("e1", "e2"),
        ("e2", None),
    ]
