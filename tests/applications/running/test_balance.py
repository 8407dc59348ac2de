"""The balance holds for every pipeline that does its work, and for none that does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.applications.running.balance import Balance, Totals
from catchment.applications.running.ledger import Deed, Entry

_PARTITIONS = 2


@dataclass
class World:
    """A log, a pipeline that reads it in batches, and what it has written; seeded, so that a failure can be repeated."""

    random: Random
    entries: list[Entry] = field(default_factory=list)
    unsent: list[int] = field(default_factory=list)
    log: list[tuple[int, int, int]] = field(default_factory=list)
    read: int = 0
    late: list[tuple[int, int, int]] = field(default_factory=list)
    rejected: list[tuple[int, int, int]] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)

    def make(self, deeds: list[Deed]) -> None:
        for deed in deeds:
            copies = self.random.choice((2, 3)) if deed == "duplicate" else 1
            self.entries.append(Entry(len(self.entries), deed, "", copies))
            self.unsent += [self.entries[-1].number] * copies

    def send(self, most: int) -> None:
        for _ in range(min(most, len(self.unsent))):
            number = self.unsent.pop(self.random.randrange(len(self.unsent)))
            partition = number % _PARTITIONS
            offset = sum(one[0] == partition for one in self.log)
            self.log.append((partition, offset, number))

    def process(self, most: int) -> None:
        """As a source stage does: broken ones aside, late ones aside, of the others the first."""
        for copy in self.log[self.read : self.read + most]:
            deed = self.entries[copy[2]].deed
            if deed == "broken":
                self.rejected.append(copy)
            elif deed == "late" or (copy[2] in self.stored and self.random.random() < 0.3):
                self.late.append(copy)
            elif copy[2] not in self.stored:
                self.stored.append(copy[2])
        self.read = min(len(self.log), self.read + most)

    def read_to(self, records: int) -> dict[int, int]:
        ends: dict[int, int] = {}
        for partition, offset, _ in self.log[:records]:
            ends[partition] = offset + 1
        return ends


class Watch:
    """Enters what is new, as the account of a running application does."""

    def __init__(self, world: World) -> None:
        self.balance = Balance()
        self._world = world
        self._log = self._late = self._rejected = self._stored = 0
        self._entries = 0

    def look(self, records_read: int) -> Totals:
        world, balance = self._world, self.balance
        balance.add_ledger(world.entries[self._entries :])
        for copy in world.log[self._log :]:
            balance.add_arrived(*copy)
        for copy in world.late[self._late :]:
            balance.add_aside(*copy, "late")
        for copy in world.rejected[self._rejected :]:
            balance.add_aside(*copy, "rejected")
        for number in world.stored[self._stored :]:
            balance.add_stored(number)
        balance.read_to(world.read_to(records_read))
        self._entries, self._log = len(world.entries), len(world.log)
        self._late, self._rejected, self._stored = len(world.late), len(world.rejected), len(world.stored)
        return balance.totals


DEEDS: st.SearchStrategy[list[Deed]] = st.lists(
    st.sampled_from(("ok", "ok", "duplicate", "late", "broken")), max_size=30
)
STEPS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=12)


def finished(world: World) -> World:
    """All sent and all processed."""
    world.send(len(world.unsent))
    world.process(len(world.log))
    return world


@given(DEEDS, STEPS, st.integers())
def test_rows_in_equal_the_sum_of_outcomes_at_every_moment(
    deeds: list[Deed], steps: list[tuple[int, int, bool]], seed: int
) -> None:
    world = World(Random(seed))
    world.make(deeds)
    watch = Watch(world)
    for sent, processed, looks in steps:
        # The pipeline says how far it is before it goes on, so what it says may be behind what it has done.
        said = world.read
        world.send(sent)
        world.process(processed)
        if looks:
            totals = watch.look(said)
            assert watch.balance.faults == []
            assert totals.arrived == len(world.log)
            assert totals.arrived == totals.accounted
            assert totals.lost == 0
            assert watch.balance.is_even


@given(DEEDS, STEPS, st.integers())
def test_when_all_is_processed_each_copy_has_its_place(
    deeds: list[Deed], steps: list[tuple[int, int, bool]], seed: int
) -> None:
    world = World(Random(seed))
    world.make(deeds)
    watch = Watch(world)
    for sent, processed, looks in steps:
        world.send(sent)
        world.process(processed)
        if looks:
            watch.look(world.read)
    totals = watch.look(finished(world).read)
    assert totals == Totals(
        arrived=len(world.log),
        stored=len(world.stored),
        duplicate=len(world.log) - len(world.stored) - len(world.late) - len(world.rejected),
        late=len(world.late),
        rejected=len(world.rejected),
    )
    assert watch.balance.compare_with_ledger({}) == []


def complete(deeds: list[Deed]) -> World:
    world = World(Random(1))
    world.make(deeds)
    return finished(world)


def test_an_event_that_was_read_and_not_stored_is_lost() -> None:
    world = complete(["ok", "duplicate", "late"])
    world.stored.remove(1)
    watch = Watch(world)
    totals = watch.look(world.read)
    assert totals.lost == world.entries[1].copies
    assert watch.balance.faults == ["event 1 was read and is nowhere"]
    assert not watch.balance.is_even


def test_an_event_that_is_on_the_way_is_not_yet_lost() -> None:
    world = complete(["ok"])
    world.stored.clear()
    watch = Watch(world)
    assert watch.look(0) == Totals(arrived=1, on_the_way=1)
    assert watch.balance.is_even


def test_an_event_that_is_stored_twice_is_reported() -> None:
    world = complete(["ok", "ok"])
    world.stored.append(0)
    watch = Watch(world)
    watch.look(world.read)
    assert watch.balance.faults == ["event 0 is stored 2 times"]


@pytest.mark.parametrize("deed", ["late", "broken"])
def test_a_record_that_is_late_or_rejected_twice_is_reported(deed: Deed) -> None:
    world = complete([deed])
    (world.late if deed == "late" else world.rejected).append(world.log[0])
    watch = Watch(world)
    watch.look(world.read)
    assert len(watch.balance.faults) == 1
    assert "where it is not, or was counted before" in watch.balance.faults[0]
    assert not watch.balance.is_even


def test_a_broken_event_may_not_be_stored() -> None:
    world = complete(["broken"])
    world.rejected.clear()
    world.stored.append(0)
    watch = Watch(world)
    watch.look(world.read)
    assert watch.balance.faults == ["event 0 was broken and is stored"]


def test_a_sound_event_may_not_be_rejected() -> None:
    world = complete(["ok"])
    world.stored.clear()
    world.rejected.append(world.log[0])
    watch = Watch(world)
    watch.look(world.read)
    assert watch.balance.faults == ["event 0 was well formed and is rejected"]


def test_an_event_that_is_stored_but_not_in_the_log_is_reported() -> None:
    world = complete(["late"])
    world.stored.append(0)
    watch = Watch(world)
    watch.look(world.read)
    assert watch.balance.faults == ["event 0 is stored, but all its copies in the log are late or rejected"]


def test_missing_copies_and_extra_copies_in_the_log_are_reported() -> None:
    world = complete(["ok", "duplicate"])
    world.log = [copy for copy in world.log if copy[2] != 0]
    world.stored.remove(0)
    world.log.append((1, len(world.log), 1))
    watch = Watch(world)
    watch.look(len(world.log))
    copies = world.entries[1].copies
    assert watch.balance.compare_with_ledger({}) == [
        "event 0 was sent 1 times and is in the log 0 times",
        f"event 1 was sent {copies} times and is in the log {copies + 1} times",
    ]


def test_a_copy_that_was_sent_again_without_an_answer_may_be_there_twice() -> None:
    world = complete(["duplicate"])
    world.log.append((0, len(world.log), 0))
    watch = Watch(world)
    watch.look(len(world.log))
    assert watch.balance.compare_with_ledger({0: 1}) == []
