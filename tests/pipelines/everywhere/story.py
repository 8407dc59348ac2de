"""A story of which the end is known, however its events are divided into batches.

Between two chapters everything is processed. Within a chapter no event is older than the newest one before it by as much as the
lateness, so none of them may be called late; those that are late were so before their chapter began. A duplicate follows its
original closely.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any, Final

from tests.pipelines.city import DISTRICTS, City, Report, at

_WEIGHTS: Final = {"fire": 1, "flood": 2, "quake": 5}
_WINDOW_S: Final = 10
_JITTER_S: Final = 12.0
_SLICES: Final = 4
_SLICE_S: Final = 6
_SLICE_REPORTS: Final = 60
_LEAP_S: Final = 100.0

Event = Report | bytes
Board = dict[tuple[str, int], tuple[int, int | None]]


@dataclass(frozen=True)
class Chapter:
    """Events in the order in which they are sent, each slice at a moment of the story; before them the crews that change."""

    slices: list[tuple[float, list[Event]]]
    crews: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """All that a pipeline leaves, in an order that does not depend on batches."""

    clean: list[tuple[str, dict[str, Any]]]
    board: Board
    lake: list[str]
    quarantine: list[tuple[bytes, str]]
    late: list[bytes]


@dataclass(frozen=True)
class Story:
    """What happens, and what must be known of it in the end."""

    seed: int
    chapters: list[Chapter]
    kept: list[list[Report]]
    """The reports of each chapter that are to be counted."""
    broken: list[tuple[bytes, str]]
    late: list[Report]

    def expected(self) -> Outcome:
        """The end by plain Python."""
        kept = list(chain.from_iterable(self.kept))
        rows = [
            (str(one.district), {"id": one.id, "district": one.district, "kind": one.kind, "at": _text(one)})
            for one in kept
        ]
        return Outcome(
            clean=sorted(rows, key=lambda row: str(row[1]["id"])),
            board=self.board(len(self.chapters)),
            lake=sorted(one.id for one in kept),
            quarantine=sorted(self.broken),
            late=sorted(one.value() for one in self.late),
        )

    def board(self, chapters: int) -> Board:
        """The board after some chapters. A window has the crew that was known when an event last came for it."""
        crews: dict[str, int] = {}
        sums: Counter[tuple[str, int]] = Counter()
        board: Board = {}
        for chapter, kept in list(zip(self.chapters, self.kept, strict=True))[:chapters]:
            crews |= chapter.crews
            for one in kept:
                window = (str(one.district), int(one.seconds // _WINDOW_S) * _WINDOW_S)
                sums[window] += _WEIGHTS[one.kind]
                board[window] = (sums[window], crews.get(window[0]))
        return board


def write_story(seed: int) -> Story:
    """Reports out of order, some twice and some broken; then a leap in time; then some too late and some just in time."""
    random = Random(seed)
    slices, kept, broken = [], [], []
    for number in range(_SLICES):
        reports = [_report(random, f"r{number}-{one}", _flow_seconds(random, number)) for one in range(_SLICE_REPORTS)]
        wrong = _broken(f"w{number}", number * _SLICE_S)
        events: list[Event] = [*reports, *random.sample(reports, 5), *(value for value, _ in wrong)]
        random.shuffle(events)
        slices.append((float((number + 1) * _SLICE_S), events))
        kept += reports
        broken += wrong
    leap = Report("leap", _LEAP_S)
    late = [_report(random, f"late{number}", random.uniform(0, 70)) for number in range(7)]
    in_time = [_report(random, f"in time{number}", random.uniform(81, 99)) for number in range(30)]
    last: list[Event] = [*late, *in_time]
    random.shuffle(last)
    chapters = [
        Chapter([*slices, (_LEAP_S, [leap])], {"harbour": 3, "old town": 1}),
        Chapter([(_LEAP_S + 1, last)], {"harbour": 9}),
    ]
    return Story(seed, chapters, [[*kept, leap], in_time], broken, late)


def outcome(city: City) -> Outcome:
    """What the pipeline has left so far."""
    clean = [(row["key"].decode(), city.row_of(row["value"])) for row in city.rows(f"{city.name}.clean")]
    aside = city.rows(f"{city.name}.quarantine")
    return Outcome(
        clean=sorted(clean, key=lambda row: str(row[1]["id"])),
        board=city.board(),
        lake=city.lake_ids(),
        quarantine=sorted(
            (row["value"], row["headers"]["catchment.error"].decode().partition(":")[0]) for row in aside
        ),
        late=sorted(row["value"] for row in city.rows(f"{city.name}.late")),
    )


def _report(random: Random, name: str, seconds: float) -> Report:
    return Report(name, round(seconds, 3), random.choice(DISTRICTS), random.choice(list(_WEIGHTS)))


def _flow_seconds(random: Random, number: int) -> float:
    """A moment of a slice, or before it, but never as long before as events may be late."""
    return max(0.0, random.uniform(number * _SLICE_S - _JITTER_S, (number + 1) * _SLICE_S))


def _broken(name: str, seconds: float) -> list[tuple[bytes, str]]:
    """Events for the quarantine, with the beginning of the reason."""
    return [
        (f'{{"id": "{name}", '.encode(), "does not decode"),
        (Report(f"{name}-party", seconds, kind="party").value(), "failed check"),
        (Report(f"{name}-nowhere", seconds, district=None).value(), "failed check"),
    ]


def _text(report: Report) -> str:
    """An event time as a boundary has it."""
    return at(report.seconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
