"""The history of the clients of a log: the input of the checker.

A process is one run of one client: a client that was killed and restarted is another process. Values are unique: no two sends
write the same one, so that every value that is read identifies its writer.
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
    """The client was killed or got no response: it may have happened or not."""


class Send(NamedTuple):
    partition: Partition
    value: Value
    offset: int | None = None
    """The offset in the broker's response, if there was one."""


class Poll(NamedTuple):
    partition: Partition
    records: tuple[tuple[int, Value], ...]
    """Offsets with their values, in the order of reading."""


class Seek(NamedTuple):
    """The client was assigned the partition again, or called seek: its next poll may begin anywhere."""

    partition: Partition


Event = Send | Poll | Seek


class Transaction(NamedTuple):
    """The atomic operations of one process. A plain read is a committed transaction of one poll."""

    process: Hashable
    events: tuple[Event, ...]
    outcome: Outcome
    begun: int
    """Times are numbers that increase over all processes."""
    ended: int
    commit_begun: int | None = None
    """When the process requested the commit; None if it did not."""
