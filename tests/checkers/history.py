"""What clients of a log did and saw: the input of the checker.

A process is one life of one client: a client that was killed and started again is another. Values are unique: no two sends
write the same one, so that whatever is read names its writer.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

Partition = Hashable
Value = Hashable


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    """Known not to have happened."""
    UNKNOWN = "unknown"
    """The client died, or heard nothing: it may have happened or not."""


class Send(NamedTuple):
    partition: Partition
    value: Value
    offset: int | None = None
    """Where the broker says that it lies, if it got to say so."""


class Poll(NamedTuple):
    partition: Partition
    records: tuple[tuple[int, Value], ...]
    """Offsets with their values, in the order in which they came."""


class Seek(NamedTuple):
    """The client was given the partition anew, or asked for another position: its next poll may begin anywhere."""

    partition: Partition


Event = Send | Poll | Seek


class Transaction(NamedTuple):
    """What one process did that counts as a whole, or not at all. A plain read is a committed transaction of one poll."""

    process: Hashable
    events: tuple[Event, ...]
    outcome: Outcome
    begun: int
    """Moments are numbers that rise with time over all processes."""
    ended: int
    commit_begun: int | None = None
    """When the process asked for the commit; None if it did not."""
