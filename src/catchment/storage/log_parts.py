"""What a log is made of, and what it answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from catchment.storage.leader_epochs import LeaderEpochs
from catchment.storage.producer_files import ProducerFiles
from catchment.storage.producer_state import ProducerState
from catchment.storage.segments import Segments


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
