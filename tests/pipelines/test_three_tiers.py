"""Events go from the log through processing into both stores, and each of them is in exactly one place."""

from __future__ import annotations

from tests.pipelines.city import City, Report


def test_events_reach_both_stores_and_what_is_broken_late_or_twice_there_is_told_apart(city: City) -> None:
    pipeline = city.pipeline()
    city.send_crew("harbour", 3)
    good = [Report(str(number), number / 10, "harbour" if number % 2 else "hills") for number in range(100)]
    broken = [b"{bad", Report("party", 1, kind="party").value(), Report("nowhere", 1, district=None).value()]
    city.send([*good, good[5], *broken], seconds=10)
    city.drain(pipeline)
    later = [Report(str(number), number / 10) for number in range(400, 500)]
    city.send(later, seconds=50)
    city.drain(pipeline)
    city.send([Report("late", 1), Report("just in time", 48), later[50]], seconds=51)
    city.send_crew("harbour", 9)
    city.drain(pipeline)

    kept = [*good, *later, Report("just in time", 48)]
    assert sorted(row["id"] for row in city.values(f"{city.name}.clean")) == sorted(one.id for one in kept)
    assert city.lake_ids() == sorted(one.id for one in kept)
    assert city.board() == {
        ("harbour", 0): (50, 3),
        ("hills", 0): (50, None),
        ("harbour", 40): (101, 9),
    }
    assert [row["value"] for row in city.rows(f"{city.name}.late")] == [Report("late", 1).value()]
    quarantined = {row["value"]: row["headers"] for row in city.rows(f"{city.name}.quarantine")}
    assert quarantined.keys() == set(broken)
    assert quarantined[broken[0]]["catchment.error"].startswith(b"does not decode")
    assert quarantined[broken[1]]["catchment.error"] == b"failed check: kind IN ('fire', 'flood', 'quake')"
    assert quarantined[broken[1]]["catchment.topic"] == city.reports.encode()
