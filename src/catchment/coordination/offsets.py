"""The offsets that groups have committed: logged state, changed by replay alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from catchment.coordination.group_records import NO_TIME, CommittedOffset, OffsetKey

TopicPartition = tuple[str, int]

_NONE: Mapping[TopicPartition, CommittedOffset] = {}


class CommittedOffsets:
    __slots__ = ("_groups", "_topics")

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._topics: Counter[str] = Counter()
        """How many offsets each topic has here, so that the end of another topic costs nothing."""

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._groups.get(group_id, _NONE)

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        if topic not in self._topics:
            return
        for group_id, offsets in self._groups.items():
            for name, partition in offsets:
                if name == topic:
                    yield OffsetKey(group_id, name, partition)

    def replay(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        group_id, topic, partition = key
        offsets = self._groups.get(group_id)
        if committed is not None:
            if offsets is None:
                offsets = self._groups[group_id] = {}
            if (topic, partition) not in offsets:
                self._topics[topic] += 1
            offsets[topic, partition] = committed
        elif offsets is not None and offsets.pop((topic, partition), None) is not None:
            self._topics[topic] -= 1
            if not self._topics[topic]:
                del self._topics[topic]
            if not offsets:
                del self._groups[group_id]


def has_expired(committed: CommittedOffset, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    """Whether an offset may go that nobody has needed since `since_ms`."""
    if committed.expire_time_ms != NO_TIME:
        return now_ms >= committed.expire_time_ms
    return now_ms - since_ms >= retention_ms
