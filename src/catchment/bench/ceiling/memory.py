"""What the ceiling keeps for a partition: a counter and one batch, however much is produced.

A consumer gets that one batch again and again with increasing offsets. So it receives whole batches of the producer's size, at the
speed of memory, and possibly a few records beyond the last one produced.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

_OFFSET = struct.Struct(">q")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION = 23
# Below this size the newest batch is always kept, so that records that carry their send time are recent.
_SMALL_BATCH_BYTES = 16_384


@dataclass(slots=True)
class RememberedPartition:
    """One partition: the number of records, and a batch for consumers."""

    end_offset: int = 0
    batch: bytes = b""
    batch_records: int = 0
    waiters: list[Callable[[], None]] = field(default_factory=list)

    def append(self, records: memoryview) -> int:
        """Count the batch and return the offset of its first record."""
        base_offset = self.end_offset
        count: int = _LAST_OFFSET_DELTA.unpack_from(records, _LAST_OFFSET_DELTA_POSITION)[0] + 1
        self.end_offset = base_offset + count
        if len(self.batch) <= _SMALL_BATCH_BYTES or len(records) >= len(self.batch):
            self.batch, self.batch_records = bytes(records), count
        for wake in tuple(self.waiters):
            wake()
        return base_offset

    def read(self, offset: int, maximum_bytes: int) -> tuple[list[bytes | memoryview], int]:
        """Copies of the kept batch from `offset` on, at least one if there are records, and their size."""
        pieces: list[bytes | memoryview] = []
        size = 0
        rest = memoryview(self.batch)[8:]
        while offset < self.end_offset and (size == 0 or size + len(self.batch) <= maximum_bytes):
            pieces += (_OFFSET.pack(offset), rest)
            size += len(self.batch)
            offset += self.batch_records
        return pieces, size


@dataclass(slots=True)
class RememberedTopics:
    """All topics by name and by id."""

    by_name: dict[str, list[RememberedPartition]] = field(default_factory=dict)
    by_id: dict[bytes, list[RememberedPartition]] = field(default_factory=dict)

    def create(self, name: str, partition_count: int) -> list[RememberedPartition]:
        """Create the topic, or return the existing one."""
        if name not in self.by_name:
            partitions = [RememberedPartition() for _ in range(partition_count)]
            self.by_name[name] = partitions
            self.by_id[topic_id(name).bytes] = partitions
        return self.by_name[name]


def topic_id(name: str) -> uuid.UUID:
    """The same id for the same name, always."""
    return uuid.uuid5(uuid.NAMESPACE_OID, name)
