"""What the watermark is made of: events, all of them and nothing else, from the first stage to the last."""

from __future__ import annotations

import pytest
from tests.pipelines.event_time.oracle import Oracle
from tests.pipelines.event_time.questions import SLIDING, STAFFED, TREND
from tests.pipelines.event_time.stories import SECOND_US, Event
from tests.pipelines.event_time.town import Town, bound_batches


def event(serial: int, at_us: int, *, is_broken: bool = False) -> Event:
    """One of many that are sent a second apart."""
    sent_us = (200 + serial) * SECOND_US
    return Event(serial, f"e{serial}", "harbour", at_us, sent_us, serial % 3, is_broken=is_broken)


def test_quarantined_records_make_nothing_late(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    newest_us = 100 * SECOND_US
    bound_batches(monkeypatch, source_stages=1)
    town.tell(
        "calls",
        [
            event(0, newest_us),
            event(1, 0, is_broken=True),
            event(2, newest_us + 1000),
            event(3, newest_us + 1000),
        ],
    )
    town.drain(town.asking([TREND], {"calls": "0 seconds"}), only=["calls"])
    assert sorted(town.counted("calls")) == [0, 2]
    assert town.late("calls") == [3]


def test_rows_that_a_stage_passes_on_may_come_as_late_as_they_came_to_it(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound_batches(monkeypatch, source_stages=1, others=1)
    moments_s = (200, 260, 300, 205, 500)
    town.tell("calls", [event(serial, moment_s * SECOND_US) for serial, moment_s in enumerate(moments_s)])
    pipeline = town.asking([STAFFED, SLIDING], {"calls": "100 seconds"})
    town.drain(pipeline, only=["calls", "staffed", "outlet-sliding"])
    assert town.late("calls") == []
    Oracle({"calls": town.sent["calls"][:-1]}).check(SLIDING, town.answer(SLIDING))
