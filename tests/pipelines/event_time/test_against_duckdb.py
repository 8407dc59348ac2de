"""Random streams through every window and join: the answers are those of a batch computation over the events that were not late.

Set CATCHMENT_EVENT_TIME_ROUNDS for more streams, such as 50.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

import pytest
from tests.pipelines.city import DISTRICTS
from tests.pipelines.event_time.oracle import Crews, Oracle, check_each_once, check_lateness
from tests.pipelines.event_time.questions import ALL
from tests.pipelines.event_time.stories import SECOND_US, Shape, story, the_end
from tests.pipelines.event_time.town import STREAMS, Town, bound_batches, dropped_rows

ROUNDS: Final = int(os.environ.get("CATCHMENT_EVENT_TIME_ROUNDS", "1"))
DRAINS: Final = 2
LATENESS_S: Final = (20, 0, 5)


def send_crews(town: Town, random: Random, crews: Crews) -> Crews:
    """Change the table: some crews are set, some are gone."""
    changed = dict(crews)
    for district in DISTRICTS:
        crew = random.choice((None, random.randrange(10)))
        if crew is None:
            changed.pop(district, None)
        else:
            changed[district] = crew
        town.send_crew(district, crew)
    return changed


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_every_answer_is_that_of_a_batch_over_what_was_not_late(
    town: Town, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    lateness_s = {name: LATENESS_S[(seed + number) % len(LATENESS_S)] for number, name in enumerate(STREAMS)}
    stories = {
        name: story(random, name, Shape(lateness_s[name], partitions, drains=DRAINS))
        for name, partitions in STREAMS.items()
    }
    pipeline = town.asking(ALL, {name: f"{one} seconds" for name, one in lateness_s.items()})
    bound_batches(monkeypatch, intakes=random.randint(20, 60), others=random.choice((None, 50)))
    crews: list[Crews] = []
    for drain in range(DRAINS + 1):
        crews.append(send_crews(town, random, crews[-1] if crews else {}))
        for name, events in stories.items():
            town.tell(name, [one for one in events if one.drain == drain])
            if drain == DRAINS:
                town.tell(name, [the_end(events, drain)])
        run = town.drain(pipeline)
        assert not any(dropped_rows(run).values())

    place = town.place(pipeline)
    counted = {}
    for name, sent in town.sent.items():
        late = town.late(name)
        assert late, "a stream without late events shows nothing"
        check_each_once(sent, town.counted(name), late)
        check_lateness(sent, late, lateness_s[name] * SECOND_US, place.checkpoint(name), town.topic(name))
        serials = set(town.counted(name))
        counted[name] = [one for one in sent if one.serial in serials]
    assert town.broken() == sum(one.is_broken for sent in town.sent.values() for one in sent)
    oracle = Oracle(counted, crews)
    for question in ALL:
        oracle.check(question, town.answer(question))
