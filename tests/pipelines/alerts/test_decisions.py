"""Deciding, by its laws: alerts apart, none missed, none twice, whatever the order and wherever the driver dies."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipelines.alerts.alert_world import alert_id

from catchment.pipelines.alerts.decisions import Candidate, Memory

KEYS = ["harbour", "hill", "old town"]


def candidate(key: str, event_time_us: int, value: str = "") -> Candidate:
    return Candidate(key, event_time_us, alert_id("city", "burst", key, event_time_us), key, value, [key])


candidates = st.lists(st.builds(candidate, st.sampled_from(KEYS), st.integers(0, 100)), max_size=30)
batches = st.lists(candidates, max_size=6)
cooldowns_us = st.integers(0, 40)


def times_us(fired: list[Candidate], key: str) -> list[int]:
    return sorted(one.event_time_us for one in fired if one.key == key)


@given(batches, cooldowns_us)
def test_two_alerts_of_a_key_are_at_least_the_cooldown_apart(sent: list[list[Candidate]], cooldown_us: int) -> None:
    memory = Memory(cooldown_us)
    fired = [one for batch in sent for one in memory.decide(batch).fired]
    for key in KEYS:
        assert all(later - earlier >= max(1, cooldown_us) for earlier, later in pairwise(times_us(fired, key)))


@given(batches, cooldowns_us)
def test_what_does_not_fire_is_close_to_what_did(sent: list[list[Candidate]], cooldown_us: int) -> None:
    memory = Memory(cooldown_us)
    fired: list[Candidate] = []
    for batch in sent:
        fired += memory.decide(batch).fired
        for one in batch:
            nearest_us = min(abs(time_us - one.event_time_us) for time_us in times_us(fired, one.key))
            assert nearest_us == 0 or nearest_us < cooldown_us


@given(batches, cooldowns_us, st.integers(1, 50), st.data())
@settings(max_examples=1000)
def test_a_driver_that_dies_and_repeats_batches_fires_the_same_and_nothing_twice(
    sent: list[list[Candidate]], cooldown_us: int, limit: int, data: st.DataObject
) -> None:
    undisturbed = Memory(cooldown_us, limit)
    expected = [one for batch in sent for one in undisturbed.decide(batch).fired]
    log: list[Candidate] = []
    memory = Memory(cooldown_us, limit)
    for batch in sent:
        while True:
            death = data.draw(st.sampled_from(["none", "before the commit", "after the commit"]))
            fired = memory.decide(batch).fired
            if death != "before the commit":
                log += fired
            if death == "none":
                break
            memory = Memory(cooldown_us, limit)
            for one in data.draw(st.permutations(log)):
                memory.remember(one.key, one.event_time_us)
    assert log == expected


@given(candidates, cooldowns_us, st.data())
def test_the_order_of_rows_in_a_batch_does_not_matter(
    batch: list[Candidate], cooldown_us: int, data: st.DataObject
) -> None:
    assert Memory(cooldown_us).decide(batch) == Memory(cooldown_us).decide(data.draw(st.permutations(batch)))


@given(batches, cooldowns_us, st.integers(1, 5))
def test_a_full_memory_stays_within_its_bound_and_never_fires_an_alert_twice(
    sent: list[list[Candidate]], cooldown_us: int, limit: int
) -> None:
    memory = Memory(cooldown_us, limit)
    fired: list[Candidate] = []
    for batch in sent:
        fired += memory.decide(batch).fired
        assert len(memory) <= limit
    assert len({one.id for one in fired}) == len(fired)


@given(candidates, cooldowns_us, st.integers(1, 5))
def test_every_candidate_is_counted_once(batch: list[Candidate], cooldown_us: int, limit: int) -> None:
    decision = Memory(cooldown_us, limit).decide(batch)
    assert len(decision.fired) + decision.repeated + decision.cooling + decision.forgotten == len(batch)


def test_what_is_older_than_all_that_is_remembered_does_not_fire() -> None:
    memory = Memory(0, limit=2)
    assert len(memory.decide([candidate("hill", 10), candidate("hill", 20), candidate("hill", 30)]).fired) == 3
    decision = memory.decide(
        [candidate("hill", 10), candidate("harbour", 5), candidate("hill", 15), candidate("hill", 20)]
    )
    assert decision.forgotten == 2
    assert [one.event_time_us for one in decision.fired] == [15]
    assert decision.repeated == 1


def test_the_earliest_of_a_burst_fires() -> None:
    decision = Memory(60).decide([candidate("hill", 50), candidate("hill", 10), candidate("hill", 69)])
    assert [one.event_time_us for one in decision.fired] == [10]
    assert decision.cooling == 2
    assert [one.event_time_us for one in Memory(60).decide([candidate("hill", 10), candidate("hill", 70)]).fired] == [
        10,
        70,
    ]
