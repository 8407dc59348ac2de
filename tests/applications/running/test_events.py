"""What a generator sends is what its ledger says, and is as disorderly as it should be."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from random import Random

import pytest

from catchment.applications.catalogue import TITLES, generator_of
from catchment.applications.running.events import Disorder, Disturbed

_NOW_S = 1_700_000_000.0
_COUNT = 3_000
_LATENESS_S = 5.0


@pytest.mark.parametrize("name", list(TITLES))
def test_every_entry_of_the_ledger_is_sent_in_as_many_copies(name: str) -> None:
    disturbed = Disturbed(generator_of(name), Random(7), first_number=10, lateness_s=_LATENESS_S)
    entries = [one for tick in range(30) for one in disturbed.make(100, _NOW_S + tick)]
    sent = Counter(record.number for record in disturbed.due(None))
    assert sent == {entry.number: entry.copies for entry in entries}
    assert {entry.deed for entry in entries} == {"ok", "duplicate", "late", "broken"}


@pytest.mark.parametrize("name", list(TITLES))
def test_sound_events_have_their_number_and_a_time_within_the_lateness(name: str) -> None:
    generator = generator_of(name)
    disturbed = Disturbed(
        generator, Random(7), 0, lateness_s=_LATENESS_S, disorder=Disorder(late=0, broken=0, duplicate=0)
    )
    disturbed.make(_COUNT, _NOW_S)
    ages_s = []
    for record in disturbed.due(_NOW_S):
        assert record.value is not None
        event = json.loads(record.value)
        assert event["id"] == str(record.number)
        assert record.key == str(event[generator.key]).encode()
        ages_s.append(_NOW_S - datetime.fromisoformat(event["at"]).timestamp())
    assert len(ages_s) == _COUNT
    assert max(ages_s) < _LATENESS_S


def test_late_events_are_older_than_the_pipeline_allows() -> None:
    generator = generator_of("emergency")
    disturbed = Disturbed(generator, Random(7), 0, lateness_s=_LATENESS_S, disorder=Disorder(late=1))
    disturbed.make(100, _NOW_S)
    for record in disturbed.due(_NOW_S):
        at = datetime.fromisoformat(json.loads(record.value or b"")["at"])
        assert _NOW_S - at.timestamp() > _LATENESS_S


def test_copies_come_when_they_are_due_and_not_before() -> None:
    disturbed = Disturbed(
        generator_of("emergency"), Random(7), 0, lateness_s=_LATENESS_S, disorder=Disorder(duplicate=1, late=0)
    )
    disturbed.make(50, _NOW_S)
    first = list(disturbed.due(_NOW_S))
    assert sorted(record.number for record in first) == list(range(50))
    rest = list(disturbed.due(_NOW_S + 600))
    assert {record.number for record in rest} == set(range(50))


def test_broken_events_are_broken_in_every_way() -> None:
    disturbed = Disturbed(
        generator_of("emergency"),
        Random(7),
        0,
        lateness_s=_LATENESS_S,
        disorder=Disorder(late=0, duplicate=0, broken=1),
    )
    ways = Counter(entry.detail for entry in disturbed.make(1_000, _NOW_S))
    assert len(ways) == 11
    assert min(ways.values()) > 50
