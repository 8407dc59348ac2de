"""One run of a streaming query: what has been planned, what is finished, and how far the next batch goes."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Final

from catchment.client.errors import ClientError, SettingsError
from catchment.client.fetch.record_sizes import mean_record_bytes
from catchment.client.network.deadline import Backoff, Deadline
from catchment.client.offsets import LATEST
from catchment.client.topic_metadata import TopicPartition
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.notices import Notice, subscribe
from catchment.spark.source.admission import Admission, MostRows
from catchment.spark.source.batch_bytes import BatchBytes
from catchment.spark.source.data_loss import data_lost
from catchment.spark.source.group_commits import GroupCommits
from catchment.spark.source.noted_offsets import NotedOffsets
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.planning import UNKNOWN_FACTS, BatchFacts, OffsetRange
from catchment.spark.source.positions import Offsets, from_json
from catchment.spark.source.time_offsets import TimeEdges
from catchment.spark.source.topic_selection import TopicSelection
from catchment.spark.source.topic_watch import TopicWatch
from catchment.spark.source.upstream import FinishedBatch, Upstream

_REMEMBERED_ENDS: Final = 16
_LAST_COMMIT_S: Final = 2.0
_UNDECIDED_S: Final = 0.01


class StreamRun:
    """Used by the main thread of the planning process; notices of finished batches arrive on another thread."""

    def __init__(self, options: SourceOptions, notices_address: str | None) -> None:
        self.available: Offsets = {}
        """Where the partitions ended when they were last asked."""
        self._options = options
        self._watch = TopicWatch(options)
        self._noted_watch = TopicWatch(_of_noted(options)) if options.note_topics else None
        self._edges = TimeEdges(options) if options.admits_by_time or options.admit_up_to else None
        self._admission = Admission(
            options,
            cut=self._edges.cut if self._edges and options.admits_by_time else None,
            most_rows=_most_rows(options),
        )
        self._upstream = Upstream(options.admit_up_to) if options.admit_up_to else None
        self._admitted: FinishedBatch | None = None
        self._admissible: Offsets | None = None
        self._commits = GroupCommits(options)
        self._initial: Offsets | None = None
        self.initial_topics: dict[str, int] = {}
        """Which topics those are where the query begins."""
        self._stop_at: Offsets | None = None
        self._is_first = True
        self._is_start_written = not options.start.uses(LATEST)
        self._lock = Lock()
        self._planned: deque[Offsets] = deque(maxlen=_REMEMBERED_ENDS)
        self._subscription = subscribe(notices_address, self._hear)

    def initial(self) -> Offsets:
        """Where a query without a checkpoint begins."""
        if self._initial is None:
            self._initial = self._watch.initial()
            self.initial_topics = self.topics_of(self._initial)
        return self._initial

    def stop_at_latest(self) -> None:
        """Read no further than what is there now."""
        backoff = Backoff(_UNDECIDED_S, _UNDECIDED_S, Deadline(self._options.connection.timeout_s))
        while (readable := self._readable()) is None:
            if not backoff.pause():
                raise ClientError(
                    f"records of the query at {self._options.admit_up_to} stay undecided",
                    "A transaction that it has ended is not ended in every partition; look at the brokers.",
                )
        self._stop_at = readable

    def next_end(self, begin: NotedOffsets, *, is_limited: bool) -> Offsets:
        """Where the batch that begins there ends. The call also means that the previous batch is finished."""
        self.finished(begin.read)
        if not self._is_start_written:
            self._is_start_written = True
            if begin.read == self._initial:
                return begin.read
        readable = self._readable() if self._stop_at is None else self._stop_at
        start = self._still_there(begin)
        self._check_loss(start, self.available)
        if readable is None:
            return start
        end = readable if self._upstream is None else self._not_before(start, readable)
        with self._lock:
            if is_limited:
                end = self._admission.end(start, end, may_wait=self._stop_at is None)
        if end == start and self._stop_at is not None and self._planned and self._can_commit:
            # Spark ends this process next.
            self._commits.wait_for(start, _LAST_COMMIT_S)
        return end

    def planned(self, end: Offsets) -> None:
        """A batch that ends there is about to run, perhaps one that was planned in an earlier run and is repeated in this."""
        with self._lock:
            if end not in self._planned:
                self._planned.append(end)

    def begins_now(self) -> bool:
        """Whether the run's first batch must run even without rows (`batchAtStart`)."""
        is_first, self._is_first = self._is_first, False
        return is_first and self._options.batch_at_start

    def topics_of(self, offsets: Offsets) -> dict[str, int]:
        """Which topics these are, to be noted with the offsets."""
        named = {topic for topic, _ in offsets}
        return {topic: number for topic, number in self._watch.topics.items() if topic in named}

    def range_between(
        self, place: TopicPartition, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> OffsetRange:
        """What a batch reads of one partition. One that is new to the query begins at 0."""
        start, end = starts.get(place, 0), ends[place]
        if start > end:
            # A first batch that is repeated in a new run reads nothing: it was there to write down where the query began.
            is_first = starts == self._initial
            if not is_first:
                self._report_cut(place, start, end)
            # A recreated partition is read from its start.
            start = end if is_first else 0
        return OffsetRange(*place, start, end)

    def _readable(self) -> Offsets | None:
        """What may be read now; None if that is about to be decided."""
        # Asked first, so that everything up to that time is in what is asked for next.
        finished = None if self._upstream is None else self._upstream.finished()
        if finished is not None and finished == self._admitted:
            return self._admissible
        self.available = self._watch.latest()
        if self._upstream is None or self._edges is None:
            return self.available
        if finished is None:
            return {}
        self._admissible = self._edges.before(finished.time_ms + 1, self.available)
        # Until another batch is done there is no more to read, and brokers need not be asked many times a second.
        self._admitted = finished if self._admissible is not None else None
        return self._admissible

    def _not_before(self, start: Offsets, readable: Offsets) -> Offsets:
        """An end that is not before the start of any partition, except where records are gone."""
        kept = {place: min(offset, self.available[place]) for place, offset in start.items() if place in self.available}
        return readable | {place: max(offset, readable.get(place, 0)) for place, offset in kept.items()}

    def noted(self) -> Offsets:
        """Where the topics end that are noted with a batch, as far as nothing there is undecided."""
        return {} if self._noted_watch is None else self._noted_watch.latest()

    def facts(self) -> BatchFacts:
        """Those of the batch that is about to run: Spark has noted its plan by the time that it asks for its tasks."""
        if self._options.watermark_from is None:
            return UNKNOWN_FACTS
        checkpoint = SparkCheckpoint.at(self._options.watermark_from)
        batch_id = checkpoint.newest_planned()
        if batch_id is None:
            raise SettingsError(
                f"Spark has planned no batch at {self._options.watermark_from}, which watermarkFrom names",
                "Give watermarkFrom the checkpointLocation of the very query that reads this source.",
            )
        plan = checkpoint.plan(batch_id)
        return BatchFacts(batch_id, plan.watermark_ms, plan.time_ms)

    def finished(self, end: Offsets, query: str | None = None) -> None:
        """Everything before `end` has been processed, by the query of this name if it is known."""
        with self._lock:
            self._admission.finished(end)
        self._commits.finished(end, query)

    def close(self) -> None:
        self._subscription.close()
        self._commits.close()

    def _still_there(self, begin: NotedOffsets) -> Offsets:
        """Where a batch begins, without what was read of topics that are other ones by now: those begin at 0."""
        start = begin.among(self._watch.topics)
        for topic in sorted({place[0] for place in begin.read.keys() - start.keys()}):
            data_lost(
                f"topic {topic} was deleted and recreated, so its offsets start again at 0",
                fail=self._options.fail_on_data_loss,
            )
        return start

    def _check_loss(self, start: Offsets, available: Offsets) -> None:
        fail = self._options.fail_on_data_loss
        for place, offset in start.items():
            if place not in available:
                data_lost(f"partition {place[1]} of topic {place[0]}, read up to offset {offset}, is gone", fail=fail)
            elif available[place] < offset:
                self._report_cut(place, offset, available[place])

    def _report_cut(self, place: TopicPartition, read_to: int, end: int) -> None:
        data_lost(
            f"partition {place[1]} of topic {place[0]} was read up to offset {read_to} but ends at {end}: "
            "it was recreated or truncated",
            fail=self._options.fail_on_data_loss,
        )

    @property
    def _can_commit(self) -> bool:
        return self._options.group_id is not None or self._subscription.connected

    def _hear(self, notice: Notice) -> None:
        """A batch of some query is finished; it may be ours if it ends where one of ours was to end.

        Queries that read the same topics in step cannot be distinguished. The notice is true of the query that it names, so each of
        them commits to that query's group.
        """
        ends = [_read_end(text) for text in notice.ends]
        with self._lock:
            planned = [end for end in self._planned if end in ends]
        for end in planned[-1:]:
            self.finished(end, notice.query_name or notice.query_id)


def _most_rows(options: SourceOptions) -> MostRows | None:
    if options.max_bytes_per_trigger is None:
        return None
    look = partial(mean_record_bytes, options.connection.cluster())
    return BatchBytes(options.max_bytes_per_trigger, look).most_rows


def _of_noted(options: SourceOptions) -> SourceOptions:
    """What watches noted topics: only committed records, so that a reader up to there never waits."""
    return replace(options, selection=TopicSelection(topics=options.note_topics), read_committed=True)


def _read_end(text: str) -> Offsets | None:
    """The end of a source; None if it is a source of another kind, whose ends look otherwise."""
    try:
        return NotedOffsets.of(from_json(json.loads(text))).read
    except (AttributeError, TypeError, ValueError):
        return None
