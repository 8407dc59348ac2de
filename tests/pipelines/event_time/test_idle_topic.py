"""A join of two streams of which one is silent: the watermark waits for it, and the status names its topic."""

from __future__ import annotations

from tests.pipelines.event_time.questions import ANSWERED
from tests.pipelines.event_time.stories import SECOND_US, Event
from tests.pipelines.event_time.town import Town

from catchment.pipelines.driving.datasets import origins
from catchment.pipelines.driving.status.model import QueryStatus, RunStatus
from catchment.pipelines.driving.status.progress import ProgressReader
from catchment.pipelines.graph import Graph

LATENESS = {"calls": "20 seconds", "visits": "20 seconds"}
QUERY = "outlet-answered"


def event(serial: int, seconds: int) -> Event:
    return Event(serial, f"e{serial}", "harbour", seconds * SECOND_US, seconds * SECOND_US, 0)


class Watched:
    """The status of the join, with a clock of its own."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._pipeline = town.asking([ANSWERED], LATENESS)
        self.status = QueryStatus(QUERY, "outlet")
        self._reader = ProgressReader(self.status, origins(Graph(self._pipeline.check())))

    def drain(self, now_s: float) -> None:
        """Process all that is there, at a moment."""
        for progress in self._town.drain(self._pipeline).queries[QUERY].recentProgress:
            self._reader.read(progress, now_s)

    @property
    def faults(self) -> list[str]:
        return RunStatus("town", 1, [self.status]).faults


def test_a_silent_topic_holds_back_a_join_and_is_named(town: Town) -> None:
    watched = Watched(town)
    town.tell("calls", [event(0, 100)])
    watched.drain(now_s=0.0)
    assert watched.faults == []
    town.tell("calls", [event(1, 300)])
    watched.drain(now_s=11.0)
    assert town.answer(ANSWERED).num_rows == 0, "no call is known to be unanswered while visits may still come"
    assert watched.status.watermark is None
    assert watched.status.held_back_by == [town.topic("visits")]
    assert watched.faults == [f"{QUERY}: nothing new in topic {town.topic('visits')} holds back its watermark"]

    town.tell("visits", [event(0, 250)])
    town.tell("calls", [event(2, 400)])
    watched.drain(now_s=12.0)
    assert watched.faults == []
    assert town.answer(ANSWERED).column("call").to_pylist() == ["e0"], "what is before 230 s is decided"
