"""One partition's log: append, read, roll, sync and truncate, on one disk.

All of it is synchronous and belongs to one thread. Nothing is counted before it is written: a disk that refuses a write
leaves the log as it was, and the next append may succeed. A sync that fails is final, because the kernel may have dropped
what it could not write: the log then refuses writes for good, and goes on serving reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.ports.clock import Clock
from catchment.ports.disk import Disk, File
from catchment.protocol.batch import HEAD_SIZE, BatchHeader, patched_head
from catchment.protocol.errors import ApiError
from catchment.storage import producer_files, rolling
from catchment.storage.config import LogConfig
from catchment.storage.control_record import TransactionMarker, read_marker
from catchment.storage.follower_batches import split_batches
from catchment.storage.leader_epochs import LeaderEpochs
from catchment.storage.lookup import FileRange, Lookup, TimestampedOffset
from catchment.storage.producer_files import ProducerFiles
from catchment.storage.producer_state import ProducerState
from catchment.storage.segment import Segment
from catchment.storage.segments import Segments
from catchment.storage.transaction_index import AbortedTransaction
from catchment.storage.unsynced import Unsynced
from catchment.storage.validation import check_batch, needs_transform, transform


class AppendInfo(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """The time that the log gave the batch, or -1 where the producer's own counts."""
    log_start_offset: int
    is_duplicate: bool


class LogSlice(NamedTuple):
    data: bytes


@dataclass(slots=True)
class LogParts:
    """What a log is made of, as `recovery` finds or makes it on disk."""

    directory: str
    topic: str
    partition: int
    topic_id: UUID | None
    segments: Segments
    leader_epochs: LeaderEpochs
    producers: ProducerState
    producer_files: ProducerFiles
    log_start_offset: int
    log_end_offset: int
    synced_offset: int
    has_changed: bool
