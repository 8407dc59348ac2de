"""A board that is read while it is written: events that keep coming, readers of its view, and what none of them may ever see.

Counts of the wrong version are negative, those of the repaired one positive, so that a row tells which version it belongs to.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from tests.pipelines.city import City, Report, seconds_of

_WINDOW_S: Final = 10
_TICK_S: Final = 0.05
_LOOK_S: Final = 0.01
_DISTRICTS: Final = ("harbour", "hills")
_QUERY: Final = 'SELECT district, start, "count" FROM board'

Window = tuple[str, int]
Rows = Sequence[tuple[Window, int]]


class Sender:
    """Events in order, each tick a second of the story later; all are written down before they are sent."""

    def __init__(self, city: City) -> None:
        self.sent: Counter[Window] = Counter()
        self._city = city
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender")
        self._seconds = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_TICK_S):
            events = [Report(f"{district}{self._seconds}", self._seconds, district) for district in _DISTRICTS]
            for district in _DISTRICTS:
                self.sent[district, self._seconds // _WINDOW_S * _WINDOW_S] += 1
            self._city.send(events, self._seconds)
            self._seconds += 1


class Reader:
    """Reads a view again and again as any program would, on a connection of its own."""

    def __init__(self, connect: Callable[[], Any], missing: type[Exception], sent: Mapping[Window, int]) -> None:
        """`missing` is what the database says as long as there is no view."""
        self.seen: dict[Window, int] = {}
        self.versions: list[int] = []
        """The signs of the versions that were seen, in turn."""
        self.faults: list[str] = []
        self.reads = 0
        self._connect = connect
        self._missing = missing
        self._sent = sent
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        connection = self._connect()
        try:
            while not self._stopped.wait(_LOOK_S):
                self._look(connection)
        finally:
            connection.close()

    def _look(self, connection: Any) -> None:
        try:
            found = connection.execute(_QUERY).fetchall()
        except Exception as error:
            if self.seen or not isinstance(error, self._missing):
                self.faults.append(repr(error))
            return
        rows = [((district, seconds_of(str(start))), count) for district, start, count in found]
        self.faults += faults(self.seen, rows, self._sent)
        self.seen = dict(rows)
        self.versions += [sign for sign in sorted({_sign(count) for _, count in rows}) if [sign] != self.versions[-1:]]
        self.reads += 1


def faults(before: Mapping[Window, int], rows: Rows, sent: Mapping[Window, int]) -> list[str]:
    """What is wrong with a view, given the one that was seen before it and what has been sent until now."""
    now = dict(rows)
    found = [f"{window} is there twice" for window, times in Counter(one for one, _ in rows).items() if times > 1]
    if len({_sign(count) for _, count in rows}) > 1:
        found.append(f"two versions at once: {sorted(rows)}")
    found += [f"{window} has gone" for window in before.keys() - now.keys()]
    found += [
        f"{window} went back from {before[window]} to {now[window]}"
        for window in before.keys() & now.keys()
        if abs(now[window]) < abs(before[window])
    ]
    found += [f"{window} counts {count} of {sent[window]}" for window, count in rows if abs(count) > sent[window]]
    return found


@contextmanager
def reading(readers: Sequence[Reader]) -> Iterator[None]:
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        for reader in readers:
            reader.stop()


def _sign(count: int) -> int:
    return 1 if count > 0 else -1
