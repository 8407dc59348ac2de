"""What a share partition is asked, told and ruled by."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from catchment.broker.share.spans import Change
from catchment.coordination.share_state.batches import StateBatch


class AcknowledgeType(enum.IntEnum):
    GAP = 0
    """There is no record at the offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member needs more time (KIP-1222)."""


class Rules(NamedTuple):
    """What the group's settings say about its records."""

    lock_duration_ms: int
    max_delivery_count: int
    max_record_locks: int
    may_renew: bool = True

    @property
    def isolated_from_count(self) -> int:
        """Records that were delivered this often come in ever smaller portions, so that a bad one stands alone at the end."""
        return max(2, (self.max_delivery_count + 1) // 2)


class Extent(NamedTuple):
    """A batch in the log."""

    base_offset: int
    last_offset: int
    is_deliverable: bool = True
    """Not so for control batches, nor for aborted ones where the group reads committed data."""


class Wish(NamedTuple):
    """How much a member wants at once."""

    max_records: int
    batch_size: int
    is_exact: bool = False
    """Whether `max_records` may cut a batch (record_limit, KIP-1206) or is rounded up to its end."""


class Acquired(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One for all offsets, or one for each."""


class Decision(NamedTuple):
    """A change that waits, and what has to be persisted for it."""

    change: Change
    batches: tuple[StateBatch, ...]
