"""A log through power losses, full disks and clean restarts, against a plain list of what was appended to it.

What must hold: everything that was synced is there, what is there is what was appended, in order and byte for byte, and a
producer's repeated batch is still known as a repetition.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.batch import HEAD_SIZE, check, iterate_headers, read_header
from catchment.protocol.errors import ApiError
from catchment.protocol.records import encode_batch, numbered
from catchment.storage.config import LogConfig
from catchment.storage.directory import LogDirectory
from catchment.storage.log import Log

STEPS = 300
EPOCH = 1
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=100)
PRODUCERS = 3


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    data: bytes
    producer_id: int


class World:
    """The log, its disk, and what must be true of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.disk = MemoryDisk()
        self.directory = self._open()
        self.log: Log = self.directory.create_log("topic", 0, None, CONFIG)
        self.appended: list[Batch] = []
        self.synced_end = 0
        self.next_sequences = [0] * PRODUCERS

    def append(self) -> None:
        producer_id = self.random.randrange(-1, PRODUCERS)
        records = numbered(
            (None, self.random.randbytes(self.random.choice((1, 20, 300)))) for _ in range(self.random.randint(1, 5))
        )
        sequence = self.next_sequences[producer_id] if producer_id >= 0 else -1
        data = encode_batch(
            records,
            base_timestamp_ms=self.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
        info = self.log.append_as_leader(memoryview(data), EPOCH)
        assert not info.is_duplicate
        self.appended.append(Batch(info.base_offset, info.last_offset + 1, bytes(data), producer_id))
        if producer_id >= 0:
            self.next_sequences[producer_id] += len(records)

    def repeat(self) -> None:
        """A producer that has got no response sends its last batch again."""
        last = next((batch for batch in reversed(self.appended) if batch.producer_id >= 0), None)
        if last is not None:
            info = self.log.append_as_leader(memoryview(last.data), EPOCH)
            assert info.is_duplicate
            assert info.base_offset == last.base_offset

    def sync(self) -> None:
        end = self.log.log_end_offset
        self.log.sync()
        self.synced_end = end

    def checkpoint(self) -> None:
        self.directory.checkpoint()

    def append_to_a_full_disk(self) -> None:
        self.disk.fill(self.random.randrange(100))
        before = self.log.log_end_offset, len(self.appended)
        rejection: ApiError | None = None
        try:
            self.append()
        except ApiError as error:
            rejection = error
        self.disk.make_room()
        if rejection is not None:
            assert rejection.code is ErrorCode.kafka_storage_error
            assert (self.log.log_end_offset, len(self.appended)) == before

    def restart(self) -> None:
        self.directory.close()
        self.synced_end = self.log.log_end_offset
        self._reopen()

    def die(self) -> None:
        """A kill -9: the next process finds everything, synced or not."""
        end = self.log.log_end_offset
        self.disk.unlock_all()
        self._reopen()
        assert self.log.log_end_offset == end

    def lose_power(self) -> None:
        self.disk = self.disk.crash(self.random)
        self._reopen()

    def check(self) -> None:
        assert self.log.log_end_offset >= self.synced_end
        served = self._read_all()
        assert [read_header(batch).base_offset for batch in served] == [batch.base_offset for batch in self.appended]
        for batch, expected in zip(served, self.appended, strict=True):
            check(batch)
            assert batch[HEAD_SIZE:] == memoryview(expected.data)[HEAD_SIZE:]

    def _read_all(self) -> list[memoryview]:
        batches: list[memoryview] = []
        offset, end = 0, self.log.log_end_offset
        while offset < end:
            data = memoryview(self.log.read(offset, 1 << 20, end))
            for position, header in iterate_headers(data):
                batches.append(data[position : position + header.size])
                offset = header.next_offset
        return batches

    def _open(self) -> LogDirectory:
        directory = LogDirectory(self.disk, self.clock, "/data", node_id=1)
        directory.open_logs(lambda topic: CONFIG)
        return directory

    def _reopen(self) -> None:
        self.directory = self._open()
        # A log that was never synced may be gone as a whole; the broker then creates it again.
        if ("topic", 0) not in self.directory.logs:
            self.directory.create_log("topic", 0, None, CONFIG)
        self.log = self.directory.logs["topic", 0]
        assert self.log.log_end_offset >= self.synced_end
        self._forget_what_was_lost()
        self.check()
        # Readers get the log's own offsets, so they must be true.
        self.synced_end = max(self.synced_end, self.log.synced_offset)

    def _forget_what_was_lost(self) -> None:
        """What was never synced may be gone; its producers have got no response and continue from what is there."""
        lost = [batch for batch in self.appended if batch.end_offset > self.log.log_end_offset]
        self.appended = self.appended[: len(self.appended) - len(lost)]
        for batch in lost:
            if batch.producer_id >= 0:
                self.next_sequences[batch.producer_id] -= batch.end_offset - batch.base_offset


@pytest.mark.parametrize("seed", range(25))
def test_what_was_synced_survives_and_nothing_else_is_served(seed: int) -> None:
    world = World(seed)
    likely = [world.append] * 20 + [world.sync] * 4 + [world.repeat] * 3
    rare = [world.checkpoint, world.append_to_a_full_disk, world.restart, world.die, world.lose_power]
    for _ in range(STEPS):
        world.clock.advance(world.random.randrange(100))
        world.random.choice([*likely, *rare])()
    world.check()
