"""Several runs on one directory, each ended by a close, a kill or a power loss, against a list of what was written.

Everything that a broker does to a log happens at random in between: syncs, checkpoints, rolls, truncations, deletions.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.storage.logs import NOW_MS, SMALL, TOPIC_ID, batch, check_indexes, read_all, sync

from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.storage.directory import LogDirectory
from catchment.storage.log import Log

_KEY = ("flow", 0)


class Restarts:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = MemoryDisk()
        self.directory = self.opened()
        self.directory.create_log(*_KEY, TOPIC_ID, SMALL)
        self.values: list[bytes] = []
        self.boundaries = [0]
        self.synced_count = 0
        self.durable_start = 0
        self.epoch = 0
        self.sync()
        self.checkpoint()

    @property
    def log(self) -> Log:
        return self.directory.logs[_KEY]

    def opened(self) -> LogDirectory:
        directory = LogDirectory(self.disk, ManualClock(NOW_MS), "/data", node_id=1)
        directory.open_logs(lambda topic: SMALL)
        return directory

    def run(self) -> None:
        actions = [self.sync, self.checkpoint, self.log.roll, self.new_epoch, self.truncate, self.delete_records]
        for _ in range(self.random.randrange(5, 40)):
            action = self.random.choice(actions) if self.random.random() < 0.3 else self.append
            action()

    def append(self) -> None:
        values = [self.random.randbytes(self.random.randrange(150)) for _ in range(self.random.randrange(1, 4))]
        producer_id = self.random.choice([-1, 1, 2])
        entry = self.log.producers.get(producer_id)
        sequence = -1 if producer_id < 0 else 0 if entry is None else entry.last_sequence + 1
        data = batch(*values, producer_id=producer_id, epoch=min(sequence, 0), sequence=sequence)
        self.log.append_as_leader(data, self.epoch)
        self.values.extend(values)
        self.boundaries.append(len(self.values))

    def sync(self) -> None:
        sync(self.log)
        self.synced_count = len(self.values)

    def checkpoint(self) -> None:
        self.directory.checkpoint()
        self.durable_start = self.log.log_start_offset

    def new_epoch(self) -> None:
        self.epoch += 1

    def truncate(self) -> None:
        offset = self.random.choice(self.boundaries[-4:])
        if offset >= self.log.log_start_offset:
            self.log.truncate_to(offset)
            self.keep(offset)
            self.checkpoint()

    def delete_records(self) -> None:
        self.log.advance_log_start(self.random.randint(self.log.log_start_offset, self.log.log_end_offset))
        if self.random.random() < 0.5:
            made = self.directory.begin_checkpoint(only_log_starts=True)
            for replacement in made.replacements:
                self.disk.replace_file(*replacement)
            self.directory.end_checkpoint(made)
            self.durable_start = self.log.log_start_offset

    def keep(self, end_offset: int) -> None:
        """Nothing is left from this offset on."""
        self.values = self.values[:end_offset]
        self.boundaries = [boundary for boundary in self.boundaries if boundary < end_offset] + [end_offset]
        self.synced_count = min(self.synced_count, end_offset)

    def stop(self) -> int:
        """End this run and begin the next; the number of records that it must find at least."""
        least = len(self.values)
        match self.random.choice(["close", "kill", "power loss", "power loss"]):
            case "close":
                self.directory.close()
                self.synced_count = len(self.values)
                self.durable_start = self.log.log_start_offset
            case "kill":
                self.disk.unlock_all()
            case _:
                self.disk = self.disk.crash(self.random)
                least = self.synced_count
        self.directory = self.opened()
        return least

    def check(self, least: int) -> None:
        log = self.log
        start, end = log.log_start_offset, log.log_end_offset
        assert self.durable_start <= start
        assert least <= end <= len(self.values)
        assert read_all(log) == list(enumerate(self.values))[start:end]
        check_indexes(log)
        self.keep(end)


@pytest.mark.parametrize("seed", range(100))
def test_after_any_stop_the_next_start_finds_a_valid_prefix_with_all_that_was_synced(seed: int) -> None:
    restarts = Restarts(seed)
    for _ in range(4):
        restarts.run()
        restarts.check(restarts.stop())
