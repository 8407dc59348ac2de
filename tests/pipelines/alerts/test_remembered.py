"""What is remembered of ids is bounded."""

from __future__ import annotations

from catchment.pipelines.alerts.log import Remembered


def test_one_id_more_than_there_is_room_for_costs_the_oldest() -> None:
    known: Remembered[int] = Remembered(limit=2)
    for number, identity in enumerate(["a", "b", "a", "c"]):
        known[identity] = number
    assert "a" not in known
    assert (known["b"], known["c"]) == (1, 3)
