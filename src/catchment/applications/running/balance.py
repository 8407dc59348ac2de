"""Does it add up? Every record in the log against what has become of it: in = stored + duplicate + late + rejected.

The account is by event, never by counters that agree with themselves. The copies of an event are those found in the log. Each
is late or rejected, which its own offset shows, or it is the one that was stored, or a duplicate of that one. Below the offsets
that the pipeline has committed, a copy that is none of these is lost.

The balance is updated as records are read, and only for the events concerned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from catchment.applications.running.ledger import Entry

Aside = Literal["late", "rejected"]
_NAMED_FAULTS: Final = 20


@dataclass(frozen=True, slots=True)
class Totals:
    """The two sides of the balance."""

    arrived: int = 0
    stored: int = 0
    duplicate: int = 0
    late: int = 0
    rejected: int = 0
    on_the_way: int = 0
    lost: int = 0
    """Copies that the pipeline has read and that are nowhere."""

    @property
    def accounted(self) -> int:
        return self.stored + self.duplicate + self.late + self.rejected + self.on_the_way + self.lost


class Balance:
    """The account of one topic of events, by the numbers that the generator gave them."""

    def __init__(self) -> None:
        self._copies = bytearray()
        """Of each number, as the ledger has it; 0 where it has none."""
        self._is_broken = bytearray()
        self._stored = bytearray()
        self._late = bytearray()
        self._rejected = bytearray()
        self._unread = bytearray()
        """Copies that the pipeline may not have read yet."""
        self._read = bytearray()
        """Copies that it has read, without late and rejected ones."""
        self._waiting: dict[int, dict[int, int]] = {}
        """Offset → number of the unread copies, by partition."""
        self._read_to: dict[int, int] = {}
        self._counts = [0] * 7
        self._faults: dict[int, str] = {}
        self._misplaced: list[str] = []

    @property
    def totals(self) -> Totals:
        return Totals(*self._counts)

    @property
    def faults(self) -> list[str]:
        """The first contradictions; losses are in the totals too."""
        return [*self._misplaced, *islice(self._faults.values(), _NAMED_FAULTS)][:_NAMED_FAULTS]

    @property
    def is_even(self) -> bool:
        """Whether every record that was read is accounted for and nothing contradicts the ledger."""
        return not (self._faults or self._misplaced) and self.totals.arrived == self.totals.accounted

    def add_ledger(self, entries: Iterable[Entry]) -> None:
        """What the generator says that it sends."""
        for entry in entries:
            self._grow(entry.number)
            self._copies[entry.number] = entry.copies
            self._is_broken[entry.number] = entry.deed == "broken"

    def add_arrived(self, partition: int, offset: int, number: int) -> None:
        """A record of the log."""
        before = self._begin(number)
        self._waiting.setdefault(partition, {})[offset] = number
        self._unread[number] += 1
        if offset < self._read_to.get(partition, 0):
            self._pass(partition, offset)
        self._end(number, before)

    def add_aside(self, partition: int, offset: int, number: int, where: Aside) -> None:
        """A late or rejected record, by its partition and offset in the log."""
        before = self._begin(number)
        if self._waiting.get(partition, {}).pop(offset, None) is not None:
            self._unread[number] -= 1
        elif self._read[number]:
            self._read[number] -= 1
        else:
            self._misplaced.append(
                f"event {number} is {where} by partition {partition}, offset {offset}, where it is not, or was counted before"
            )
            return
        (self._late if where == "late" else self._rejected)[number] += 1
        self._end(number, before)

    def add_stored(self, number: int) -> None:
        """A record of the cleaned topic."""
        before = self._begin(number)
        self._stored[number] += 1
        self._end(number, before)

    def read_to(self, offsets: Mapping[int, int]) -> None:
        """The pipeline has processed each partition up to an offset; its outcomes were added before."""
        for partition, offset in offsets.items():
            if offset > self._read_to.get(partition, 0):
                self._read_to[partition] = offset
                for passed in [one for one in self._waiting.get(partition, {}) if one < offset]:
                    number = self._waiting[partition][passed]
                    before = self._begin(number)
                    self._pass(partition, passed)
                    self._end(number, before)

    def compare_with_ledger(self, resent: Mapping[int, int]) -> list[str]:
        """Once all is sent: events of which the log has fewer copies than were sent, or more. The first few of them."""
        found = []
        for number, copies in enumerate(self._copies):
            arrived = self._arrived(number)
            if not copies <= arrived <= copies + resent.get(number, 0):
                found.append(f"event {number} was sent {copies} times and is in the log {arrived} times")
        return found

    def _pass(self, partition: int, offset: int) -> None:
        number = self._waiting[partition].pop(offset)
        self._unread[number] -= 1
        self._read[number] += 1

    def _begin(self, number: int) -> tuple[int, ...]:
        self._grow(number)
        return self._contribution(number)

    def _end(self, number: int, before: tuple[int, ...]) -> None:
        after = self._contribution(number)
        self._counts = [count - old + new for count, old, new in zip(self._counts, before, after, strict=True)]
        self._judge(number)

    def _contribution(self, number: int) -> tuple[int, ...]:
        """What one event adds to the totals, in their order."""
        stored, read, unread = self._stored[number], self._read[number], self._unread[number]
        late, rejected = self._late[number], self._rejected[number]
        arrived = read + unread + late + rejected
        if not stored:
            return arrived, 0, 0, late, rejected, unread, read
        if read:
            return arrived, 1, read - 1, late, rejected, unread, 0
        # The stored copy is one of those above the committed offset.
        return arrived, 1, 0, late, rejected, max(0, unread - 1), 0

    def _judge(self, number: int) -> None:
        stored, kept, is_broken = (
            self._stored[number],
            self._read[number] + self._unread[number],
            self._is_broken[number],
        )
        found = []
        if stored > 1:
            found.append(f"is stored {stored} times")
        if stored and not kept:
            found.append("is stored, but all its copies in the log are late or rejected")
        if stored and is_broken:
            found.append("was broken and is stored")
        if self._rejected[number] and not is_broken:
            found.append("was well formed and is rejected")
        if self._read[number] and not stored:
            found.append("was read and is nowhere")
        if found:
            self._faults[number] = f"event {number} {' and '.join(found)}"
        else:
            self._faults.pop(number, None)

    def _arrived(self, number: int) -> int:
        return self._read[number] + self._unread[number] + self._late[number] + self._rejected[number]

    def _grow(self, number: int) -> None:
        missing = number + 1 - len(self._copies)
        if missing > 0:
            for one in (
                self._copies,
                self._is_broken,
                self._stored,
                self._late,
                self._rejected,
                self._unread,
                self._read,
            ):
                one.extend(bytes(max(missing, 4096)))
