"""The offsets that groups have committed, inside and outside of transactions: logged state, changed only by replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple

from catchment.coordination.groups.records import NO_TIME, CommittedOffset, OffsetKey

TopicPartition = tuple[str, int]

_NONE: Mapping[TopicPartition, CommittedOffset] = {}


class CommittedOffsets:
    __slots__ = ("_groups", "_topics")

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._topics: Counter[str] = Counter()
        """The number of offsets of each topic, so that deleting a topic without offsets costs nothing."""

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
    """Whether an offset that has not been in use since `since_ms` can be deleted."""
    if committed.expire_time_ms != NO_TIME:
        return now_ms >= committed.expire_time_ms
    return now_ms - since_ms >= retention_ms


class _Pending(NamedTuple):
    order: int
    """Rises with every replayed record."""
    committed: CommittedOffset | None
    """None once the log holds a newer offset: the entry is still pending, but will not take effect."""


class TransactionalOffsets:
    """Offsets that were committed in transactions that are still open.

    They take effect once their transaction commits, in the order of their records in the log: a transaction that ends late
    does not overwrite an offset that was logged after its own. Until then, OffsetFetch with `require_stable` has to wait.
    """

    __slots__ = ("_by_producer", "_groups", "_order")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, _Pending]] = {}
        self._groups: dict[str, dict[TopicPartition, dict[int, None]]] = {}
        """The producers with a pending offset for each partition of a group."""
        self._order = 0

    def __len__(self) -> int:
        return sum(map(len, self._by_producer.values()))

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def of_group(self, group_id: str) -> Set[TopicPartition]:
        """The partitions for which the group has a pending offset."""
        return self._groups[group_id].keys() if group_id in self._groups else frozenset()

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        for group_id, partitions in self._groups.items():
            for name, partition in partitions:
                if name == topic:
                    yield OffsetKey(group_id, name, partition)

    def replay(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """Add an offset that an open transaction has committed."""
        self._order += 1
        self._by_producer.setdefault(producer_id, {})[key] = _Pending(self._order, committed)
        group_id, topic, partition = key
        producers = self._groups.setdefault(group_id, {}).setdefault((topic, partition), {})
        producers[producer_id] = None

    def supersede(self, key: OffsetKey) -> None:
        """Supersede the pending offsets of a partition: an offset was committed outside of transactions after them."""
        if self._by_producer:
            self._order += 1
            self._supersede(key, self._order)

    def remove(self, key: OffsetKey) -> None:
        """Remove all pending offsets of a partition whose offset is deleted."""
        for producer_id in self._producers_of(key):
            self._remove(producer_id, key)

    def end(self, producer_id: int, is_commit: bool, take: Callable[[OffsetKey, CommittedOffset], None]) -> list[str]:
        """End the producer's transaction: call `take` for each offset that it has committed, and return the groups concerned."""
        ended = list(self._by_producer.get(producer_id, {}).items())
        for key, pending in ended:
            self._remove(producer_id, key)
            if is_commit and pending.committed is not None:
                self._supersede(key, pending.order)
                take(key, pending.committed)
        return list(dict.fromkeys(key.group_id for key, _ in ended))

    def _supersede(self, key: OffsetKey, order: int) -> None:
        for producer_id in self._producers_of(key):
            pending = self._by_producer[producer_id]
            if pending[key].order < order:
                pending[key] = pending[key]._replace(committed=None)

    def _producers_of(self, key: OffsetKey) -> list[int]:
        return list(self._groups.get(key.group_id, {}).get((key.topic, key.partition), ()))

    def _remove(self, producer_id: int, key: OffsetKey) -> None:
        pending = self._by_producer[producer_id]
        del pending[key]
        if not pending:
            del self._by_producer[producer_id]
        partitions = self._groups[key.group_id]
        producers = partitions[key.topic, key.partition]
        del producers[producer_id]
        if not producers:
            del partitions[key.topic, key.partition]
        if not partitions:
            del self._groups[key.group_id]
