"""Where other topics stood when a batch was planned, kept beside the offsets that the batch reads.

Spark writes a batch's end down before it runs it. So what is noted there is the same when the batch is repeated: a table that
is joined with a stream has the same version again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from catchment.spark.positions import Offsets, from_json

_MARK: Final = "noted:"
"""No topic's name has a colon."""


@dataclass(frozen=True)
class NotedOffsets:
    """The offsets of one source at the end of a batch."""

    read: Offsets
    noted: Offsets

    @classmethod
    def of(cls, offsets: Mapping[tuple[str, int], int]) -> NotedOffsets:
        read: Offsets = {}
        noted: Offsets = {}
        for (topic, partition), offset in offsets.items():
            if topic.startswith(_MARK):
                noted[topic.removeprefix(_MARK), partition] = offset
            else:
                read[topic, partition] = offset
        return cls(read, noted)

    def together(self) -> Offsets:
        return self.read | {(_MARK + topic, partition): offset for (topic, partition), offset in self.noted.items()}


def read_up_to(ends: Iterable[Any]) -> Offsets:
    """Where the sources of a batch end in the topics that they read."""
    offsets: Offsets = {}
    for end in ends:
        offsets |= NotedOffsets.of(from_json(end)).read
    return offsets


def noted_of_topic(ends: Iterable[Any], topic: str) -> dict[int, int]:
    """What the sources of a batch have noted of one topic, by partition: the furthest, where several have."""
    found: dict[int, int] = {}
    for end in ends:
        try:
            noted = NotedOffsets.of(from_json(end)).noted
        except (AttributeError, TypeError, ValueError):
            # The end of a source of another kind.
            continue
        for (name, partition), offset in noted.items():
            if name == topic:
                found[partition] = max(offset, found.get(partition, 0))
    return found
