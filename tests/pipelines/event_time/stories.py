"""Random streams of events: out of order, late, twice there and broken, over several partitions, the same from the same seed.

Times are kept on a coarse grid, so that events often fall on the very edges of windows, joins and watermarks, and now and then a
microsecond beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Final

from tests.pipelines.city import DISTRICTS, NOON

SECOND_US: Final = 1_000_000
_GRID_US: Final = SECOND_US // 2
_BEGIN_US: Final = 100 * SECOND_US
END: Final = "the end"
"""The district of events that come long after all others, to close what is open."""


@dataclass(frozen=True)
class Event:
    """One record of a topic. Times are in microseconds since the story's noon."""

    serial: int
    """Of the record: one that is sent again has another."""
    id: str
    district: str
    at_us: int
    sent_us: int
    """The record's own time."""
    partition: int
    drain: int = 0
    """Before which processing of all that is there it is sent."""
    is_broken: bool = False

    def value(self) -> bytes:
        if self.is_broken:
            return b'{"serial": %d' % self.serial
        moment = (NOON + timedelta(microseconds=self.at_us)).isoformat()
        return json.dumps({"serial": self.serial, "id": self.id, "district": self.district, "moment": moment}).encode()


@dataclass(frozen=True)
class Shape:
    """What a stream is like."""

    lateness_s: float
    partitions: int
    originals: int = 90
    drains: int = 2


def story(random: Random, name: str, shape: Shape) -> list[Event]:
    """A stream in the order in which it is sent."""
    originals = list(_originals(random, name, shape))
    repeated = [_again(random, random.choice(originals), shape) for _ in range(shape.originals // 6)]
    in_order = sorted([*originals, *repeated], key=lambda one: one.sent_us)
    whole = [replace(one, serial=serial) for serial, one in enumerate(in_order)]
    cuts = sorted(random.sample(range(len(whole) // 4, len(whole)), shape.drains - 1))
    return [replace(one, drain=sum(one.serial >= cut for cut in cuts)) for one in whole]


def ends(events: list[Event], drain: int = 0) -> list[Event]:
    """Two events so late that everything before them is over, also for a stage that reads of the first when the second comes."""
    last_us = max(one.sent_us for one in events)
    moments_us = [last_us + number * 1000 * SECOND_US for number in (1, 2)]
    return [
        Event(len(events) + number, f"end {number}", END, moment_us, moment_us, 0, drain)
        for number, moment_us in enumerate(moments_us)
    ]


def _originals(random: Random, name: str, shape: Shape) -> Iterator[Event]:
    now_us = _BEGIN_US
    for number in range(shape.originals):
        # Silence of all lets sessions and windows end.
        now_us += _grid(random, 20, 40) if random.random() < 0.04 else _grid(random, 0, 2)
        at_us = now_us - _delay(random, shape.lateness_s)
        # Few partitions get most.
        partition = min(random.randrange(shape.partitions), random.randrange(shape.partitions))
        district = random.choice(DISTRICTS)
        is_broken = random.random() < 0.04
        yield Event(0, f"{name}{number}", district, at_us, now_us, partition, is_broken=is_broken)


def _delay(random: Random, lateness_s: float) -> int:
    """How much later than it happened an event is sent."""
    share = random.random()
    beside_us = random.choice((-1, 0, 0, 0, 1)) if random.random() < 0.3 else 0
    if share < 0.6:
        return _grid(random, 0, lateness_s / 2)
    if share < 0.85:
        return _grid(random, lateness_s / 2, lateness_s * 1.5 + 4) + beside_us
    if share < 0.95:
        return _grid(random, lateness_s, lateness_s * 3 + 30)
    return -_grid(random, 0, 3)


def _again(random: Random, event: Event, shape: Shape) -> Event:
    """The same event once more, maybe with another time: no further from the first than the lateness."""
    sent_us = event.sent_us + _grid(random, 0, shape.lateness_s + 20)
    shift_us = (
        _grid(random, 0, shape.lateness_s) - int(shape.lateness_s * SECOND_US / 2) if random.random() < 0.5 else 0
    )
    return replace(event, at_us=event.at_us + shift_us, sent_us=sent_us, partition=random.randrange(shape.partitions))


def _grid(random: Random, low_s: float, high_s: float) -> int:
    """A length of time on the grid."""
    return random.randint(round(low_s * SECOND_US / _GRID_US), round(high_s * SECOND_US / _GRID_US)) * _GRID_US
