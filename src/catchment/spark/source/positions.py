"""Start and end positions in topics: as options, as JSON in Spark's checkpoints, and as resolved offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError, SettingsError
from catchment.client.offsets import EARLIEST, LATEST, NOT_FOUND
from catchment.client.topic_metadata import TopicPartition

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]
"""The form that offsets have in options, checkpoints and progress reports, which is that of Spark's own source, with notes."""

_EXAMPLE: Final = '{"orders": {"0": 23, "1": -2}}'


@dataclass(frozen=True)
class AtOffsets:
    """The same offset everywhere (`EARLIEST`, `LATEST`), or one for each partition."""

    everywhere: int = LATEST
    by_place: tuple[tuple[TopicPartition, int], ...] | None = None

    def resolve(self, cluster: Cluster, places: Iterable[TopicPartition], read_committed: bool) -> Offsets:
        wanted = list(places)
        if self.by_place is None:
            named = dict.fromkeys(wanted, self.everywhere)
        else:
            named = dict(self.by_place)
            _check_complete(named, wanted)
        for moment in (EARLIEST, LATEST):
            asked = [place for place, offset in named.items() if offset == moment]
            found = cluster.list_offsets(asked, moment, read_committed=read_committed)
            named |= {place: found[place].offset for place in asked}
        return named

    def uses(self, moment: int) -> bool:
        """Whether `EARLIEST` or `LATEST` is meant somewhere."""
        return self.everywhere == moment if self.by_place is None else moment in dict(self.by_place).values()


@dataclass(frozen=True)
class AtTimes:
    """The first record at or after a time, the same everywhere or one for each partition; `LATEST` where there is none."""

    option: str
    everywhere_ms: int = 0
    by_place: tuple[tuple[TopicPartition, int], ...] | None = None
    must_be_found: bool = False

    def resolve(self, cluster: Cluster, places: Iterable[TopicPartition], read_committed: bool) -> Offsets:
        wanted = list(places)
        times_ms = dict.fromkeys(wanted, self.everywhere_ms) if self.by_place is None else dict(self.by_place)
        _check_complete(times_ms, wanted)
        resolved: Offsets = {}
        for time_ms in set(times_ms.values()):
            asked = [place for place in wanted if times_ms[place] == time_ms]
            found = cluster.list_offsets(asked, time_ms, read_committed=read_committed)
            resolved |= {place: found[place].offset for place in asked}
        missing = [place for place, offset in resolved.items() if offset == NOT_FOUND]
        if missing and self.must_be_found:
            topic, partition = missing[0]
            raise ClientError(
                f"{self.option}: partition {partition} of topic {topic} has no record at or after "
                f"{times_ms[topic, partition]} ms",
                "Name an earlier time, or set startingOffsetsByTimestampStrategy to latest.",
            )
        ends = cluster.list_offsets(missing, LATEST, read_committed=read_committed)
        return resolved | {place: ends[place].offset for place in missing}

    def uses(self, moment: int) -> bool:
        """Whether the answer may be the end of a partition, and so another one when asked later."""
        return moment == LATEST and not self.must_be_found


Position = AtOffsets | AtTimes


def read_json(option: str, text: str) -> tuple[tuple[TopicPartition, int], ...]:
    """Numbers by topic and partition, from the text of an option.

    Progress reports and checkpoints of this source hold notes beside offsets, under names with a colon, which no topic has.
    They are ignored, so that the reported end of one query can be the start of another.
    """
    try:
        parsed = from_json(json.loads(text))
        return tuple(sorted((place, number) for place, number in parsed.items() if ":" not in place[0]))
    except (ValueError, TypeError, AttributeError):
        raise SettingsError(f"the option {option} cannot be {text!r}", f"Write it as {_EXAMPLE}.") from None


def from_json(offsets: Any) -> Offsets:
    """Offsets out of what `json.loads` made of them."""
    return {
        (topic, int(partition)): _whole(offset)
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Offsets in the order of topics and partitions, so that the same offsets make the same text."""
    topics: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def _whole(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"{number!r} is no offset")
    return number


def _check_complete(named: Mapping[TopicPartition, int], wanted: Iterable[TopicPartition]) -> None:
    """As Spark's own source, which wants every partition named and no other."""
    places = set(wanted)
    if strange := sorted(set(named) - places):
        topic, partition = strange[0]
        raise SettingsError(
            f"an offset or a time is given for partition {partition} of topic {topic}, which the query does not read",
            f"The partitions it reads are {_listed(places)}.",
        )
    if missing := sorted(places - set(named)):
        topic, partition = missing[0]
        raise SettingsError(
            f"no offset or time is given for partition {partition} of topic {topic}",
            "Name every partition; an offset of -2 means the earliest record, -1 the end.",
        )


def _listed(places: set[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(places))
