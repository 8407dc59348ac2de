"""A city that adds up has no anomalies, and whatever is taken from it or put into it is found by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.pipelines.soak.balance import anomalies_in, sums
from tests.pipelines.soak.evidence import SCHEMAS, table

Rows = dict[str, list[tuple[Any, ...]]]
SECOND_US = 1_000_000
CALLS = 41
WATERMARK_US = 40 * SECOND_US
LATE, BROKEN, TWICE = CALLS, CALLS + 1, CALLS + 2


def report(number: int, at_s: int) -> tuple[Any, ...]:
    return number, "Harbour", "citizen", "fire", at_s * SECOND_US


def city() -> Rows:
    """A burst in the first window, one event long after, then one that is late, one that is broken and one that came twice."""
    clean = [*(report(number, 5) for number in range(CALLS)), report(TWICE, 60)]
    copies = [*range(CALLS), TWICE, LATE, BROKEN, TWICE]
    times_us: dict[int, int | None] = {number: at_us for number, *_, at_us in clean}
    times_us |= {LATE: 5 * SECOND_US, BROKEN: None}
    deeds = {LATE: "late", BROKEN: "broken", TWICE: "duplicate"}
    log = [(0, place, number, times_us[number]) for place, number in enumerate(copies)]
    windows = [("Harbour", 0, 10 * SECOND_US, CALLS, CALLS, 2), ("Harbour", 60 * SECOND_US, 70 * SECOND_US, 1, 1, 2)]
    return {
        "sent": [(number, deeds.get(number, "ok"), copies.count(number), 0) for number in range(TWICE + 1)],
        "log": log,
        "quarantined": [("late", 0, CALLS + 1, LATE, WATERMARK_US), ("rejected", 0, CALLS + 2, BROKEN, None)],
        "clean": clean,
        "lake": list(clean),
        "boards": [(store, *window) for store in ("sqlite", "postgresql", "redis") for window in windows],
        "closed": [(sink, *windows[0][:4]) for sink in ("lake", "sqlite", "postgresql", "redis")],
        "crews": [("Harbour", 2)],
        "alerts_written": [
            ("dispatch", "a", "Harbour", 10 * SECOND_US),
            ("emergency.alerts", "a", "Harbour", 10 * SECOND_US),
            ("dispatch.acted", "a", None, None),
        ],
    }


def anomalies(rows: Rows) -> set[str]:
    return {one.name for one in anomalies_in({name: table(name, rows[name]) for name in SCHEMAS})}


def test_a_city_that_adds_up_has_no_anomalies() -> None:
    rows = city()
    assert anomalies_in({name: table(name, rows[name]) for name in SCHEMAS}) == []
    found = sums({name: table(name, rows[name]) for name in SCHEMAS})
    assert found == {"in": 45, "stored": 42, "duplicate": 1, "late": 1, "rejected": 1, "alerts": 1, "closed": 4}


def add(name: str, *row: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[name].append(row)


def take(name: str, number: int = 0) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        del rows[name][number]

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (take("log", 3), {"lost by the log", "stored from nowhere"}),
        (
            take("clean", 3),
            {"lost write", "in the lake alone", "in a store alone", "not in a store"}
            | {"alert without a cause", "window not closed", "window closed otherwise"},
        ),
        (take("quarantined", 0), {"lost write"}),
        (take("quarantined", 1), {"lost write"}),
        (
            add("clean", *report(3, 5)),
            {"duplicate", "not in the lake", "in a store alone", "not in a store"}
            | {"window not closed", "window closed otherwise"},
        ),
        (add("quarantined", "late", 0, CALLS + 1, LATE, WATERMARK_US), {"quarantined twice"}),
        (add("quarantined", "rejected", 0, 99, 3, None), {"quarantined from nowhere", "sound and rejected"}),
        (
            add("quarantined", "late", 0, CALLS + 2, BROKEN, WATERMARK_US),
            {"quarantined twice", "broken and not rejected"},
        ),
        (add("quarantined", "late", 0, CALLS, TWICE, WATERMARK_US), {"late without a cause"}),
        (add("quarantined", "late", 0, CALLS, TWICE, 61 * SECOND_US), {"late without a cause"}),
        (take("lake"), {"not in the lake"}),
        (add("lake", *report(3, 5)), {"in the lake alone"}),
        (take("boards", 4), {"not in a store"}),
        (add("boards", "redis", "Market", 0, 10 * SECOND_US, 1, 1, None), {"in a store alone"}),
        (take("closed"), {"window not closed"}),
        (add("closed", "lake", "Harbour", 0, 10 * SECOND_US, CALLS), {"window closed otherwise"}),
        (add("closed", "redis", "Harbour", 60 * SECOND_US, 70 * SECOND_US, 1), {"window closed otherwise"}),
        (add("alerts_written", "dispatch", "a", "Harbour", 10 * SECOND_US), {"alert written twice"}),
        (take("alerts_written", 2), {"alert missing in a topic"}),
        (take("alerts_written", 0), {"alert missing in a topic", "alert that never came"}),
        (
            add("alerts_written", "dispatch", "b", "Harbour", 60 * SECOND_US),
            {"alert without a cause", "alert too soon", "alert missing in a topic"},
        ),
    ],
)
def test_what_does_not_add_up_is_found_by_its_name(change: Callable[[Rows], None], expected: set[str]) -> None:
    rows = city()
    change(rows)
    assert anomalies(rows) == expected
