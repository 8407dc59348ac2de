"""Power losses and damaged files: what was synced is found, what is found is valid, and the log works."""

from __future__ import annotations

from random import Random

import pytest
from tests.storage.logs import (
    DIRECTORY,
    batch,
    check_indexes,
    marker,
    new_log,
    path_of,
    read_all,
    reopened,
    sync,
    values_of,
)

from catchment.ports.disk import Disk
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.batch import iterate_headers
from catchment.storage import layout
from catchment.storage.log import Log

_SEEDS = range(120)


class Writer:
    """Appends at random and remembers what it appended, and what was synced."""

    def __init__(self, disk: MemoryDisk, random: Random) -> None:
        self.log = new_log(disk)
        self.random = random
        self.values: list[bytes] = []
        self.synced_count = 0
        self.synced_recovery_point = 0
        self.epoch = 0
        self.sequences = {1: 0, 2: 0, 3: 0}

    def run(self, steps: int) -> None:
        for step in range(steps):
            kind = self.random.random()
            if kind < 0.08:
                self.sync()
            elif kind < 0.12:
                self.epoch = step
            elif kind < 0.16:
                self.log.roll()
            else:
                self.append()

    def sync(self) -> None:
        sync(self.log)
        self.synced_count = len(self.values)
        self.synced_recovery_point = self.log.recovery_point

    def append(self) -> None:
        values = [self.random.randbytes(self.random.randrange(150)) for _ in range(self.random.randrange(1, 4))]
        producer_id = self.random.choice([-1, 1, 2, 3])
        epoch = sequence = -1
        if producer_id > 0:
            epoch, sequence = 0, self.sequences[producer_id]
            self.sequences[producer_id] += len(values)
        data = batch(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)
        self.log.append_as_leader(data, self.epoch)
        self.values.extend(values)


def _check_recovered(log: Log, writer: Writer, least: int) -> None:
    found = values_of(read_all(log))
    assert found == writer.values[: len(found)]
    assert len(found) == log.log_end_offset
    assert len(found) >= least
    check_indexes(log)
    log.append_as_leader(batch(b"after"), max(log.leader_epochs.latest, 0) + 1)
    assert values_of(read_all(log)) == [*writer.values[: len(found)], b"after"]


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_power_loss_keeps_every_synced_record_and_no_bad_one(seed: int) -> None:
    random = Random(seed)
    disk = MemoryDisk()
    writer = Writer(disk, random)
    writer.sync()
    writer.run(60)
    survivor = disk.crash(random)
    recovery_point = random.choice([0, writer.synced_recovery_point])
    log = reopened(survivor, recovery_point=recovery_point)
    _check_recovered(log, writer, writer.synced_count)


@pytest.mark.parametrize("seed", _SEEDS)
def test_repeated_power_losses_never_lose_what_was_synced_before(seed: int) -> None:
    random = Random(seed)
    disk = MemoryDisk()
    writer = Writer(disk, random)
    writer.sync()
    for _ in range(3):
        writer.run(25)
        disk = disk.crash(random)
        writer.log = reopened(disk, recovery_point=random.choice([0, writer.synced_recovery_point]))
        found = values_of(read_all(writer.log))
        assert found == writer.values[: len(found)]
        assert len(found) >= writer.synced_count
        writer.values = writer.values[: len(found)]
        writer.synced_recovery_point = min(writer.synced_recovery_point, writer.log.recovery_point)
        for producer_id in writer.sequences:
            entry = writer.log.producers.get(producer_id)
            writer.sequences[producer_id] = 0 if entry is None else entry.last_sequence + 1
        check_indexes(writer.log)


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_log_cut_or_corrupted_anywhere_recovers_to_a_valid_prefix(seed: int) -> None:
    random = Random(seed)
    disk = MemoryDisk()
    writer = Writer(disk, random)
    writer.run(60)
    segments = [segment.base_offset for segment in writer.log.segments]
    base_offset = random.choice(segments)
    path = path_of(base_offset)
    size = len(disk.read_file(path))
    position = random.randrange(size) if size else 0
    intact = _records_before(writer.log, base_offset, position)
    if random.random() < 0.5:
        _cut(disk, path, position)
    elif size:
        _corrupt(disk, path, position, random)
    log = reopened(disk, recovery_point=0)
    _check_recovered(log, writer, intact)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(
    "suffix", [layout.OFFSET_INDEX, layout.TIME_INDEX, layout.SNAPSHOT, layout.TRANSACTION_INDEX, layout.LEADER_EPOCHS]
)
def test_damage_to_anything_but_the_batches_is_repaired_after_an_unclean_stop(seed: int, suffix: str) -> None:
    random = Random(seed)
    disk = MemoryDisk()
    writer = Writer(disk, random)
    writer.run(30)
    writer.log.append_as_leader(batch(b"x", producer_id=9, epoch=0, sequence=0, is_transactional=True), 99)
    writer.log.append_as_leader(marker(9, is_commit=False), 99, is_from_client=False)
    expected = writer.log.aborted_transactions(0, writer.log.log_end_offset)
    epochs = writer.log.leader_epochs.entries
    writer.log.close()
    candidates = [entry for entry in disk.list_directory(DIRECTORY) if entry.name.endswith(suffix)]
    victim = random.choice(candidates)
    path = f"{DIRECTORY}/{victim.name}"
    if random.random() < 0.5:
        _cut(disk, path, random.randrange(victim.size + 1))
    elif victim.size:
        _corrupt(disk, path, random.randrange(victim.size), random)
    log = reopened(disk, recovery_point=0)
    assert values_of(read_all(log))[: len(writer.values)] == writer.values
    assert log.aborted_transactions(0, log.log_end_offset) == expected == [(9, len(writer.values))]
    assert log.leader_epochs.entries == tuple(entry for entry in epochs if entry.start_offset < log.log_end_offset)
    check_indexes(log)


def _records_before(log: Log, base_offset: int, position: int) -> int:
    """How many records lie in whole batches before a position of a segment."""
    segment = next(segment for segment in log.segments if segment.base_offset == base_offset)
    data = segment.file.read(0, segment.size)
    count = base_offset
    for start, header in iterate_headers(data):
        if start + header.size > position:
            break
        count = header.next_offset
    return count


def _cut(disk: Disk, path: str, size: int) -> None:
    disk.open_file(path).truncate(size)


def _corrupt(disk: Disk, path: str, position: int, random: Random) -> None:
    file = disk.open_file(path)
    data = bytearray(file.read(0, file.size))
    data[position] ^= random.randrange(1, 256)
    file.truncate(0)
    file.append([data])
