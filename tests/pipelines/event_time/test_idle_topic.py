"""A join of two streams of which one is silent: the watermark waits for it, and the status names its topic."""

from __future__ import annotations

from tests.pipelines.event_time.questions import ANSWERED
from tests.pipelines.event_time.stories import SECOND_US, Event
from tests.pipelines.event_time.town import Town

from catchment.pipelines import Pipeline
from catchment.pipelines.driving.names import origins
from catchment.pipelines.driving.progress import ProgressReader
from catchment.pipelines.driving.status import QueryStatus, RunStatus
from catchment.pipelines.graph import Graph

LATENESS = {"calls": "20 seconds", "visits": "20 seconds"}
QUERY = "outlet-answered"


def call(serial: int, seconds: int) -> Event:
    return Event(serial, f"c{serial}", "harbour", seconds * SECOND_US, seconds * SECOND_US, 0)


class Watched:
    """The status of a join, with a clock of its own."""

    def __init__(self, town: Town, pipeline: Pipeline) -> None:
        self._town = town
        self._pipeline = pipeline
        self.status = QueryStatus(QUERY, "outlet")
        self._reader = ProgressReader(self.status, origins(Graph(pipeline.check())))

    def drain(self, now_s: float) -> None:
        """Process all that is there, at a moment."""
        query = self._town.drain(self._pipeline).queries[QUERY]
        for progress in query.recentProgress:
            self._reader.read(progress, now_s)

    @property
    def faults(self) -> list[str]:
        return RunStatus("town", 1, [self.status]).faults


def test_a_silent_topic_holds_back_a_join_and_is_named(town: Town) -> None:
    watched = Watched(town, town.asking([ANSWERED], LATENESS))
    for number in range(3):
        town.tell("calls", [call(number, 100 * (number + 1))])
        watched.drain(now_s=8.0 * number)
    assert town.answer(ANSWERED).num_rows == 0, "no call is known to be unanswered while visits may still come"
    assert watched.status.watermark is None
    assert watched.status.held_back_by == [town.topic("visits")]
    assert watched.faults == [f"{QUERY}: nothing new in topic {town.topic('visits')} holds back its watermark"]

    town.tell("visits", [call(0, 250)])
    town.tell("calls", [call(3, 400)])
    watched.drain(now_s=24.0)
    assert watched.faults == []
    assert town.answer(ANSWERED).column("call").to_pylist() == ["c0", "c1"], "what is before 230 s is decided"

    # It falls silent again, and what it has decided stays decided.
    for number in (4, 5):
        town.tell("calls", [call(number, 100 * (number + 1))])
        watched.drain(now_s=8.0 * number)
    assert watched.status.held_back_by == [town.topic("visits")]
    assert town.answer(ANSWERED).num_rows == 2
