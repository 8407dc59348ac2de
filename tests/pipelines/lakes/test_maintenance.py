"""A lake is kept in shape however short the runs are that write it, and whatever that does does not stop them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.pipelines.lakes.lake_world import numbers, put

from catchment.pipelines.lakes import LakeAway, open_lake
from catchment.pipelines.lakes.delta import DeltaLake
from catchment.pipelines.lakes.maintenance import MaintenanceSchedule

_EVERY_S = 600.0


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    made = open_lake(str(tmp_path / "lake"))
    assert isinstance(made, DeltaLake)
    return made


def compactions(lake: DeltaLake) -> int:
    return sum(one["operation"] == "OPTIMIZE" for one in lake._at(None).history())


def test_a_run_compacts_with_its_first_batch_unless_an_earlier_one_has_done_it_lately(lake: DeltaLake) -> None:
    clock = Clock()
    found = []
    for run in range(2):
        schedule = MaintenanceSchedule(lake, _EVERY_S, clock)
        for batch_id in range(3):
            put(lake, numbers(batch_id), f"query {run}", batch_id)
            schedule.run_if_due()
            found.append(compactions(lake))
        clock.now_s += _EVERY_S
        put(lake, numbers(3), f"query {run}", 3)
        schedule.run_if_due()
        found.append(compactions(lake))

    # A single file is none to compact: the first run finds some to do when the time is over, and the second is too early at first.
    assert found == [0, 0, 0, 1, 1, 1, 1, 2]
    put(lake, numbers(0), "query 2", 0)
    MaintenanceSchedule(lake, 0.0, clock).run_if_due()
    assert compactions(lake) == 3, "the first batch of a run is enough where the last time was long ago"
    age_s = lake.compacted_before_s(datetime.now(UTC))
    assert age_s is not None
    assert age_s < _EVERY_S


def test_maintenance_that_fails_is_tried_again_later_and_stops_nothing(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def fail() -> None:
        tries.append(1)
        raise LakeAway("the disk is full")

    clock = Clock()
    put(lake, numbers(0), "query", 0)
    monkeypatch.setattr(lake, "maintain", fail)
    schedule = MaintenanceSchedule(lake, _EVERY_S, clock)
    for _ in range(3):
        schedule.run_if_due()
    assert len(tries) == 1
    clock.now_s = _EVERY_S
    schedule.run_if_due()
    assert len(tries) == 2
