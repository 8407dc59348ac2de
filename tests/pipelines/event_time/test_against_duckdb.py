"""Random streams through every window and join: the answers are those of a batch computation over the events that were not late.

Between two runs of the pipeline its code is changed as it may be, so that the state of one is gone on with by the other.

Set CATCHMENT_EVENT_TIME_ROUNDS for more streams, such as 50, and more questions of each.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from tests.pipelines.city import DISTRICTS
from tests.pipelines.event_time.oracle import Crews, Oracle, check_each_once, check_lateness
from tests.pipelines.event_time.questions import ALL, ANSWERED, BOARD, PAIRS, SESSIONS, STAFFED, Question
from tests.pipelines.event_time.stories import SECOND_US, Event, Shape, ends, story
from tests.pipelines.event_time.town import STREAMS, Town, bound_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHORT: Final = 1
ROUNDS: Final = int(os.environ.get("CATCHMENT_EVENT_TIME_ROUNDS", SHORT))
QUESTIONS: Final = ALL if ROUNDS > SHORT else (BOARD, SESSIONS, PAIRS, ANSWERED, STAFFED)
"""The others are asked in other tests as well."""
DRAINS: Final = 2
LATENESS_S: Final = (20, 0, 5)


def with_note(calls: DataFrame, visits: DataFrame) -> DataFrame:
    """The same pairs of rows that are chosen in another way, with a column more."""
    from pyspark.sql import functions as F

    assert callable(PAIRS.stage)
    pairs = PAIRS.stage(calls.where("district IS NOT NULL"), visits)
    return pairs.withColumn("note", F.concat("call", F.lit("-"), "visit"))


def by_minute(calls: DataFrame) -> DataFrame:
    """Sessions that end later."""
    from pyspark.sql import functions as F

    counts = calls.groupBy("district", F.session_window("moment", "1 minute").alias("w")).count()
    return counts.select("district", "w.start", "w.end", "count")


ALLOWED: Final = {PAIRS.name: replace(PAIRS, stage=with_note)}
REFUSED: Final = {
    ANSWERED.name: replace(ANSWERED, stage=ANSWERED.oracle.replace("INTERVAL 4 SECONDS", "INTERVAL 9 SECONDS")),
    SESSIONS.name: replace(SESSIONS, stage=by_minute),
}


def changed(questions: Sequence[Question], changes: Mapping[str, Question]) -> list[Question]:
    return [changes.get(one.name, one) for one in questions]


def send_crews(town: Town, random: Random, crews: Crews) -> Crews:
    """Change the table: some crews are set, some are gone."""
    now = dict(crews)
    for district in DISTRICTS:
        crew = random.choice((None, random.randrange(10)))
        if crew is None:
            now.pop(district, None)
        else:
            now[district] = crew
        town.send_crew(district, crew)
    return now


def tell(town: Town, stories: Mapping[str, list[Event]], drain: int) -> None:
    """What is sent before a drain; before the last one, the end."""
    for name, events in stories.items():
        town.tell(name, [one for one in events if one.drain == drain])
        if drain == DRAINS - 1:
            town.tell(name, ends(events, drain))


def counted_events(town: Town, stream: str, lateness_s: float, checkpoint: str) -> list[Event]:
    """The events that count, once it is shown that the others do not."""
    sent, late, counted = town.sent[stream], town.late(stream), town.counted(stream)
    assert late, "a stream without late events shows nothing"
    check_each_once(sent, counted, late)
    check_lateness(sent, late, int(lateness_s * SECOND_US), checkpoint, town.topic(stream))
    return [one for one in sent if one.serial in set(counted)]


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_every_answer_is_that_of_a_batch_over_what_was_not_late(
    town: Town, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from catchment.pipelines.planning import Refused

    random = Random(seed)
    lateness_s = {name: LATENESS_S[(seed + number) % len(LATENESS_S)] for number, name in enumerate(STREAMS)}
    lateness = {name: f"{one} seconds" for name, one in lateness_s.items()}
    stories = {
        name: story(random, name, Shape(lateness_s[name], partitions, drains=DRAINS))
        for name, partitions in STREAMS.items()
    }
    bound_batches(monkeypatch, source_stages=random.randint(30, 60), others=random.choice((None, 60)))
    crews = [send_crews(town, random, {})]
    tell(town, stories, 0)
    assert set(town.drain_as_planned(town.asking(QUESTIONS, lateness)).values()) == {"new"}

    with pytest.raises(Refused) as refused:
        town.plan(town.asking(changed(QUESTIONS, REFUSED), lateness))
    assert set(refused.value.refused) == {f"outlet-{name}" for name in REFUSED}

    crews.append(send_crews(town, random, crews[-1]))
    tell(town, stories, 1)
    pipeline = town.asking(changed(QUESTIONS, ALLOWED), lateness)
    assert set(town.drain_as_planned(pipeline).values()) == {"reuse"}

    context = town.context(pipeline)
    counted = {name: counted_events(town, name, lateness_s[name], context.checkpoint(name)) for name in STREAMS}
    assert town.broken() == sum(one.is_broken for sent in town.sent.values() for one in sent)
    oracle = Oracle(counted, crews)
    for question in QUESTIONS:
        oracle.check(question, town.answer(question))
