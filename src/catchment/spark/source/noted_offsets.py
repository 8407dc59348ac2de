"""Facts about the planning of a batch, stored beside the offsets that the batch reads.

Spark writes a batch's end offsets before it runs the batch. So these facts are the same when the batch is repeated and when the query
restarts: a table that is joined with a stream has the same version, and a topic that was deleted and recreated is distinguished from
its predecessor of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from catchment.spark.source.positions import Offsets, from_json

_NOTED: Final = "noted:"
"""No topic's name has a colon."""
_TOPIC: Final = "topic:"
_RUN: Final = "run:"
_ID_BITS: Final = 62
"""Enough bits of a topic's id to distinguish topics of one name, and few enough for every JSON parser."""


@dataclass(frozen=True)
class NotedOffsets:
    """The offsets of one source at the end of a batch."""

    read: Offsets
    noted: Offsets = field(default_factory=dict)
    """Where topics ended that are not read."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Which topics these offsets are of, as `number_of` their ids; without those whose brokers have no ids."""
    runs: int = 0
    """How often the query was started, where its runs begin with a batch of their own."""

    @classmethod
    def of(cls, offsets: Mapping[tuple[str, int], int]) -> NotedOffsets:
        read: Offsets = {}
        noted: Offsets = {}
        topics: dict[str, int] = {}
        runs = 0
        for (topic, partition), offset in offsets.items():
            if topic.startswith(_NOTED):
                noted[topic.removeprefix(_NOTED), partition] = offset
            elif topic.startswith(_TOPIC):
                topics[topic.removeprefix(_TOPIC)] = offset
            elif topic == _RUN:
                runs = offset
            else:
                read[topic, partition] = offset
        return cls(read, noted, topics, runs)

    def together(self) -> Offsets:
        noted = {(_NOTED + topic, partition): offset for (topic, partition), offset in self.noted.items()}
        topics = {(_TOPIC + topic, 0): number for topic, number in self.topics.items()}
        return self.read | noted | topics | ({(_RUN, 0): self.runs} if self.runs else {})

    def among(self, topics: Mapping[str, int]) -> Offsets:
        """The offsets of topics that still exist under the same id; a recreated topic is read from the start."""
        recreated = {topic for topic, number in self.topics.items() if topics.get(topic, number) != number}
        return {place: offset for place, offset in self.read.items() if place[0] not in recreated}


def number_of(topic_id: UUID) -> int:
    """A topic's id as it is noted."""
    return topic_id.int % (1 << _ID_BITS)


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
