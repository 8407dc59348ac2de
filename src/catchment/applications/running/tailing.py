"""What is new in a topic since the last look, as Arrow, cheaply enough to look every second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow

from catchment.client.cluster import Cluster
from catchment.client.offsets import EARLIEST, LATEST
from catchment.client.reader import Reader, Span
from catchment.client.topic_metadata import TopicPartition

_READ_TIMEOUT_S = 5.0


class TopicTail:
    """One topic, read committed and from its beginning. The cluster may be another one each time: the broker may have died."""

    def __init__(self, topic: str, columns: Sequence[str]) -> None:
        self.topic = topic
        self.ends: dict[int, int] = {}
        """Up to where each partition has been read."""
        self._columns = tuple(columns)
        self._read: list[tuple[int, pyarrow.RecordBatch]] = []

    def look(self, cluster: Cluster) -> None:
        """Read on to the end as it is now. What a look that failed had read already is kept for `take`, and not read again."""
        places: list[TopicPartition] = [(self.topic, number) for number in cluster.partitions(self.topic)]
        starts = self._starts(cluster, places)
        ends = {place: at.offset for place, at in cluster.list_offsets(places, LATEST, read_committed=True).items()}
        spans = [Span(*place, starts[place], ends[place]) for place in places if starts[place] < ends[place]]
        if spans:
            with Reader(cluster, spans, columns=self._columns, timeout_s=_READ_TIMEOUT_S) as reader:
                for read in reader:
                    self._read.append((read.partition, read.batch))
                    self.ends[read.partition] = read.next_offset
        # Where the last records before the end are the marks of transactions, no batch says so.
        self.ends |= {number: ends[topic, number] for topic, number in places}

    def written_to(self, cluster: Cluster) -> dict[int, int]:
        """Where each partition ends now, with what is not decided yet."""
        places: list[TopicPartition] = [(self.topic, number) for number in cluster.partitions(self.topic)]
        return {number: at.offset for (_, number), at in cluster.list_offsets(places, LATEST).items()}

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether all that was written up to there has been decided, and read if it counts."""
        return all(self.ends.get(number, 0) >= end for number, end in ends.items())

    def take(self) -> list[tuple[int, pyarrow.RecordBatch]]:
        """All that was read since the last time, by partition."""
        taken, self._read = self._read, []
        return taken

    def _starts(self, cluster: Cluster, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        new = [place for place in places if place[1] not in self.ends]
        found = cluster.list_offsets(new, EARLIEST) if new else {}
        return {place: self.ends[place[1]] if place[1] in self.ends else found[place].offset for place in places}
