"""A pipeline that has fallen behind reads a topic whose partitions are hours apart: nothing is late that was not late live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Final

import pytest
from tests.pipelines.driving.supervised import wait_for
from tests.pipelines.event_time.oracle import Oracle, check_each_once, check_lateness
from tests.pipelines.event_time.questions import MINUTES, TREND, TUMBLING
from tests.pipelines.event_time.stories import SECOND_US, Event, ends
from tests.pipelines.event_time.town import Town, bound_batches, dropped_rows
from tests.seeds import seed_from

from catchment.pipelines import Pipeline
from catchment.spark.checkpoint.progress import SparkCheckpoint

LATENESS_S: Final = 20
QUESTIONS: Final = (TUMBLING, MINUTES, TREND)
HOURS_S: Final = 3 * 3600
ROWS: Final = 100
"""The most that a batch takes."""


def partition_of(random: Random, partition: int, begin_s: float, step_s: float, count: int) -> Iterator[Event]:
    """Events that come within the lateness, but for one in twenty."""
    for number in range(count):
        sent_us = int((begin_s + number * step_s) * SECOND_US)
        delay_s = random.uniform(25, 200) if random.random() < 0.05 else random.uniform(0, LATENESS_S / 2)
        at_us = sent_us - int(delay_s * SECOND_US)
        yield Event(0, f"{partition}-{number}", random.choice(("harbour", "hills")), at_us, sent_us, partition)


def stop_on_the_way(town: Town, pipeline: Pipeline, condition: Callable[[], bool]) -> None:
    """Have all queries run side by side, and stop them wherever they are by then."""
    from catchment.pipelines.execution.run import Run

    run = Run(town.context(pipeline))
    run.build()
    run.start()
    try:
        wait_for("the pipeline comes so far", condition)
    finally:
        run.stop()
    assert not any(map(dropped_rows, run.queries.values()))


@pytest.mark.timeout(1500)
def test_partitions_that_are_hours_apart_lose_nothing_in_a_catch_up(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed_from("CATCHMENT_PIPELINE_SEED"))
    old = partition_of(random, 0, 1000, HOURS_S / 240, 240)
    recent = [partition_of(random, number, 1000 + HOURS_S - 300, 300 / 90, 90) for number in (1, 2)]
    in_order = sorted([*old, *recent[0], *recent[1]], key=lambda one: one.sent_us)
    events = [replace(one, serial=serial) for serial, one in enumerate(in_order)]
    town.tell("calls", [*events, *ends(events)])

    pipeline = town.asking(QUESTIONS, {"calls": f"{LATENESS_S} seconds"})
    checkpoint = town.context(pipeline).checkpoint("calls")
    bound_batches(monkeypatch, source_stages=ROWS, others=ROWS)
    stop_on_the_way(town, pipeline, lambda: (SparkCheckpoint.at(checkpoint).newest_finished() or 0) >= 1)
    town.drain(pipeline)

    late, counted = town.late("calls"), town.counted("calls")
    check_each_once(town.sent["calls"], counted, late)
    check_lateness(town.sent["calls"], late, LATENESS_S * SECOND_US, checkpoint, town.topic("calls"))
    assert len(late) <= len(events) * 0.1
    oracle = Oracle({"calls": [one for one in town.sent["calls"] if one.serial in set(counted)]})
    for question in QUESTIONS:
        oracle.check(question, town.answer(question))
