"""From plausible events to what really arrives: some of it late, some of it twice, some of it damaged.

An application's generator makes correct events. A seed determines how they are disturbed here, and the ledger records it before
anything is sent.
"""

from __future__ import annotations

import abc
import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, NamedTuple

from catchment.applications.running.ledger import Deed, Entry

ID_HEADER: Final = "id"
Event = dict[str, Any]


class Generator(abc.ABC):
    """The events of an application, before they are disturbed."""

    key: str
    """The field that is the key of an event's record."""
    tables: Mapping[str, Mapping[str, Event]] = {}
    """Rows by key of the topics that the pipeline reads as tables."""
    invalid: Sequence[Event] = ()
    """Fields that, put into an event, make the pipeline's checks reject it."""

    @abc.abstractmethod
    def event(self, random: Random, now_s: float) -> Event:
        """The event at a moment, without `id` and `at`, which are added later. Moments mostly increase, but not always."""


@dataclass(frozen=True)
class Disorder:
    """The shares of events that are disturbed."""

    delayed: float = 0.1
    """Out of order, but in time."""
    late: float = 0.005
    duplicate: float = 0.01
    broken: float = 0.004


class Outgoing(NamedTuple):
    """One record to be sent."""

    number: int
    key: bytes
    value: bytes | None


class Disturbed:
    """The events of a generator as records with their entries for the ledger."""

    def __init__(
        self,
        generator: Generator,
        random: Random,
        first_number: int,
        *,
        lateness_s: float,
        disorder: Disorder | None = None,
    ) -> None:
        """`lateness_s` is how late the pipeline allows an event to be."""
        self._generator = generator
        self._lateness_s = lateness_s
        self._random = random
        self._number = first_number
        self._disorder = disorder or Disorder()
        self._waiting: list[tuple[float, int, Outgoing]] = []
        """When it is due, a number that no other has, and the record."""
        self._count = 0

    def make(self, count: int, now_s: float) -> list[Entry]:
        """Make `count` new events; their copies wait until they are due."""
        return [self._one(now_s) for _ in range(count)]

    def due(self, now_s: float | None) -> Iterator[Outgoing]:
        """The records that are due; all of them without a time."""
        while self._waiting and (now_s is None or self._waiting[0][0] <= now_s):
            yield heapq.heappop(self._waiting)[2]

    def _one(self, now_s: float) -> Entry:
        number, self._number = self._number, self._number + 1
        random, disorder = self._random, self._disorder
        chosen = random.random()
        deed: Deed = "ok"
        detail, copies = "", 1
        age_s = random.expovariate(10)
        if (chosen := chosen - disorder.late) < 0:
            deed, age_s = "late", self._lateness_s * random.uniform(1.3, 3)
        elif (chosen := chosen - disorder.duplicate) < 0:
            deed, copies = "duplicate", random.choice((2, 2, 2, 3, 5))
        elif (chosen := chosen - disorder.broken) < 0:
            deed = "broken"
        elif chosen - disorder.delayed < 0:
            age_s = self._lateness_s * random.uniform(0, 0.6)
        event = {ID_HEADER: str(number), "at": _iso(now_s - age_s), **self._generator.event(random, now_s - age_s)}
        key = str(event[self._generator.key]).encode()
        value: bytes | None = _json(event)
        if deed == "broken":
            detail, value = self._break(event, now_s)
        self._schedule(Outgoing(number, key, value), copies, now_s)
        return Entry(number, deed, detail, copies)

    def _schedule(self, record: Outgoing, copies: int, due_s: float) -> None:
        """The first copy at once; the others soon, or so much later that they are late."""
        for _ in range(copies):
            self._count += 1
            heapq.heappush(self._waiting, (due_s, self._count, record))
            is_far = self._random.random() < 0.1
            due_s += self._lateness_s * self._random.uniform(1.3, 2) if is_far else self._random.uniform(0, 3)

    def _break(self, event: Event, now_s: float) -> tuple[str, bytes | None]:
        text = _json(event)
        ways: dict[str, bytes | None] = {
            "cut off": text[: self._random.randrange(1, len(text) - 1)],
            "noise": b"\xff\xfe" + self._random.randbytes(30),
            "empty": b"",
            "no value": None,
            "a list": b"[" + text + b"]",
            "wrong type": _json(event | {"at": "yesterday at noon"}),
            "no time": _json({name: one for name, one in event.items() if name != "at"}),
            "clock ahead": _json(event | {"at": _iso(now_s + 86_400)}),
        }
        for overlay in self._generator.invalid:
            ways[f"against a check: {overlay}"] = _json(event | overlay)
        how = self._random.choice(list(ways))
        return how, ways[how]


def _json(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _iso(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).isoformat(timespec="milliseconds")
