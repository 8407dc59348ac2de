"""Offsets of partitions at a time: every record before the offset is older than the time, and every record from it on is not.

ListOffsets returns the first entry of a log at or after a time. That may be a transaction marker, whose timestamp is the time at which
it was written, while older records follow it: a failed task left its marker, and its replacement wrote afterwards. So the records
around a cut are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from catchment.client.fetch.session import FetchLimits
from catchment.client.offsets import LATEST, NOT_FOUND
from catchment.client.reader import Reader, Span
from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.positions import AtOffsets, Offsets
from catchment.spark.source.time_admission import Ask, CutTime, Standing, count_waiting, cut_by_time

_NEWEST: Final = -3
_LOOK_BYTES: Final = 64 * 1024
_LOOK: Final = FetchLimits(max_bytes=_LOOK_BYTES * 16, partition_max_bytes=_LOOK_BYTES)


class TimeEdges:
    """For the process that plans the batches of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._read_committed = options.read_committed
        self._timeout_s = options.connection.timeout_s
        self._cluster = options.connection.cluster()
        self._last: CutTime | None = None
        self._newest: tuple[Offsets, int] | None = None

    def cut(self, start: Mapping[TopicPartition, int], available: Offsets, most: int) -> Offsets:
        """The oldest of what is waiting, which is more than `most`."""
        # Where the last batch ended, everything that is older has been read.
        since_ms = self._last.time_ms if self._last is not None and self._last.ends == start else 0
        if self._newest is None or self._newest[0] != available:
            newest = self._cluster.list_offsets(available, _NEWEST).values()
            self._newest = dict(available), max((one.timestamp_ms for one in newest), default=0)
        newest_ms = self._newest[1]

        def search(ask: Ask) -> CutTime:
            found = cut_by_time(start, available, most, ask, since_ms=since_ms, newest_ms=newest_ms)
            return CutTime(self._settled(found.ends, available, found.time_ms), found.time_ms)

        self._last = search(lambda time_ms: self._standings(available, time_ms, self._read_committed))
        if count_waiting(start, self._last.ends) > most:
            # Either a single time has so many, or marks of another clock were in the way of the search.
            self._last = search(lambda time_ms: self._exact_standings(available, time_ms))
        return self._last.ends

    def before(self, time_ms: int, available: Offsets) -> Offsets | None:
        """What there is of before a time; None as long as it is not decided whether all of it is to be read."""
        latest = AtOffsets(LATEST).resolve(self._cluster, available, read_committed=False)
        found = self._standings(available, time_ms, False)
        edges = {place: min(found[place].offset, end) if place in found else end for place, end in latest.items()}
        if any(available[place] < edge for place, edge in edges.items()):
            return None
        return self._settled(edges, available, time_ms)

    def _standings(
        self, places: Iterable[TopicPartition], time_ms: int, read_committed: bool
    ) -> dict[TopicPartition, Standing]:
        found = self._cluster.list_offsets(places, max(0, time_ms), read_committed=read_committed)
        return {
            place: Standing(one.offset, one.timestamp_ms) for place, one in found.items() if one.offset != NOT_FOUND
        }

    def _exact_standings(self, available: Offsets, time_ms: int) -> dict[TopicPartition, Standing]:
        """The same by the records alone, which are read for it."""
        found = {
            place: self._first_at(place, standing.offset, available[place], time_ms)
            for place, standing in self._standings(available, time_ms, self._read_committed).items()
        }
        return {place: standing for place, standing in found.items() if standing is not None}

    def _settled(self, ends: Offsets, available: Offsets, time_ms: int) -> Offsets:
        """The ends, moved up to the first record that is as late as that, or to what is available."""
        settled = dict(ends)
        for place, end in ends.items():
            standing = self._first_at(place, end, available[place], time_ms)
            settled[place] = available[place] if standing is None else standing.offset
        return settled

    def _first_at(self, place: TopicPartition, start: int, end: int, time_ms: int) -> Standing | None:
        """The first record in a range that is as late as that."""
        if start >= end:
            return None
        # Every stream's planner loads this module, and few of them ever get here.
        import pyarrow.compute as pc

        earliest = pa.scalar(time_ms * 1000, pa.timestamp("us", tz="UTC"))
        with Reader(
            self._cluster,
            [Span(*place, start, end)],
            columns=("offset", "timestamp"),
            read_committed=self._read_committed,
            limits=_LOOK,
            timeout_s=self._timeout_s,
        ) as reader:
            for read in reader:
                times = read.batch.column("timestamp")
                row = pc.index(pc.greater_equal(times, earliest), True).as_py()
                if row >= 0:
                    return Standing(read.batch.column("offset")[row].as_py(), times[row].value // 1000)
        return None
