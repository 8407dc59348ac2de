"""Records of many partitions as Arrow batches, from their leaders wherever these are at the moment.

    with Cluster("localhost:9092") as cluster, Reader(cluster, [Span("orders", 0, start=0, end=1000)]) as reader:
        for read in reader:
            print(read.partition, read.batch.num_rows)

While a batch is decoded and used, the next answer of its broker is already on its way. A partition is read in its order;
nothing is said of the order between partitions.

Gaps
    A log that an unclean election cut back is noticed only where the offset to read next has gone with it (KIP-320).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from kio.schema.errors import ErrorCode

from catchment.client.cluster import Cluster
from catchment.client.columns import DEFAULT_COLUMNS, record_schema
from catchment.client.connection import wait
from catchment.client.errors import BrokerError, ClientError, TimedOut, Unreachable, passes
from catchment.client.feed import Feed
from catchment.client.fetching import FetchLimits, Wanted
from catchment.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from catchment.client.topic_metadata import Place
from catchment.client.unread import Read, Unread

_PAUSE_S: Final = 0.05
_PATIENCE: Final = 0.5
"""The share of the time-out that one answer may take."""
_EMPTY_ANSWERS: Final = 3
"""After so many answers without records, there are none before the end: compaction has removed them."""


class Span(NamedTuple):
    """What to read of a partition: from `start` up to but not including `end`, or on and on."""

    topic: str
    partition: int
    start: int
    end: int | None = None


class OffsetOutOfRange(ClientError):
    """Records to be read that are not there: retention has overtaken the reader, or the topic was created anew."""

    def __init__(self, topic: str, partition: int, offset: int, log_start: int, log_end: int) -> None:
        lost = f"offset {offset} is gone" if offset < log_start else f"offset {offset} has not been written"
        super().__init__(
            f"{lost}: partition {partition} of topic {topic} holds offsets {log_start} to {log_end}",
            "Start again within these, and if they were deleted too early, raise the topic's retention.",
        )
        self.args = (topic, partition, offset, log_start, log_end)
        self.topic, self.partition, self.offset = topic, partition, offset
        self.log_start, self.log_end = log_start, log_end


class Reader:
    """Reads spans. A partition without progress for `timeout_s`, where there should be some, ends it with an error.

    An error is the end: it is raised from then on, so that nobody reads on behind records that were not handed out.
    """

    def __init__(
        self,
        cluster: Cluster,
        spans: Iterable[Span],
        *,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        read_committed: bool = True,
        limits: FetchLimits | None = None,
        validate_crc: bool = True,
        timeout_s: float = 30.0,
    ) -> None:
        record_schema(columns)
        self._cluster = cluster
        self._read_committed = read_committed
        self._limits = limits or FetchLimits()
        self._timeout_s = timeout_s
        self._patience_s = timeout_s * _PATIENCE + self._limits.max_wait_ms / 1000
        self._feeds: dict[int, Feed] = {}
        self._ends: dict[Place, int | None] = {}
        self._positions: dict[Place, int] = {}
        self._progress_at_s: dict[Place, float] = {}
        self._troubled_since_s: dict[Place, float] = {}
        self._homeless: dict[Place, ClientError | None] = {}
        self._resume_at_s = 0.0
        self._unread = Unread(tuple(columns), validate_crc=validate_crc)
        self._failure: Exception | None = None
        for span in spans:
            self._begin(span)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Read]:
        """Everything up to the ends of the spans."""
        while not self.is_finished:
            yield from self.poll(self._timeout_s)

    @property
    def is_finished(self) -> bool:
        """Whether every span is read to its end."""
        return not self._progress_at_s and not self._unread

    @property
    def positions(self) -> dict[Place, int]:
        """Where each partition is fetched next; that is ahead of what was handed out unless a poll has come to its end."""
        return dict(self._positions)

    def poll(self, timeout_s: float) -> Iterator[Read]:
        """What the brokers send next; nothing if that takes longer than `timeout_s`. What is not iterated comes next time."""
        if self._failure is not None:
            raise self._failure
        try:
            self._fetch(time.monotonic() + timeout_s)
            while self._unread:
                read = self._unread.take()
                if read.batch.num_rows:
                    yield read
        except Exception as error:
            self._failure = error
            raise

    def close(self) -> None:
        """Let the brokers forget the sessions, and close the connections."""
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()

    def _begin(self, span: Span) -> None:
        place = (span.topic, span.partition)
        if place in self._positions:
            raise ValueError(f"partition {span.partition} of topic {span.topic} is named twice")
        self._positions[place] = span.start
        self._ends[place] = span.end
        if span.end is None or span.start < span.end:
            self._progress_at_s[place] = time.monotonic()
            self._homeless[place] = None

    def _fetch(self, deadline_s: float) -> None:
        """Wait until there is something to hand out, or nothing left to wait for."""
        while self._progress_at_s and not self._unread:
            self._settle_homeless()
            self._send_requests()
            left_s = deadline_s - time.monotonic()
            longest_s = _PAUSE_S if self._homeless else self._patience_s / 2
            self._receive(max(0.0, min(left_s, longest_s)))
            if left_s <= 0:
                return
            if not self._unread:
                self._check_progress()

    def _settle_homeless(self) -> None:
        """Find the leader of each partition that has none, or is at one that did not want it."""
        if not self._homeless or time.monotonic() < self._resume_at_s:
            return
        try:
            if any(self._homeless.values()):
                self._cluster.refresh(sorted({topic for topic, _ in self._homeless}))
            for place in list(self._homeless):
                self._place(place)
        except ClientError as error:
            if not passes(error):
                raise
            for place in self._homeless:
                self._trouble(place, error)

    def _place(self, place: Place) -> None:
        topic_id = self._cluster.topic_id(place[0])
        try:
            leader = self._cluster.known_leader(*place)
        except BrokerError as error:
            # Others need not wait for its election.
            self._trouble(place, error)
            return
        feed = self._feeds.get(leader.broker_id)
        if feed is None:
            connection = self._cluster.connection(leader.broker_id)
            is_one_of_many = len(self._positions) > 1
            feed = Feed(connection, self._limits, read_committed=self._read_committed, keeps_session=is_one_of_many)
            self._feeds[leader.broker_id] = feed
        feed.session.want(place, Wanted(self._positions[place], leader.epoch, topic_id))
        del self._homeless[place]

    def _send_requests(self) -> None:
        for broker_id, feed in list(self._feeds.items()):
            try:
                feed.send()
            except (Unreachable, TimedOut) as error:
                self._lose(broker_id, error)

    def _receive(self, timeout_s: float) -> None:
        """Take the next answers; the requests after those are sent before this returns."""
        asked = {feed.connection: broker_id for broker_id, feed in self._feeds.items() if feed.is_waiting}
        if not asked:
            time.sleep(min(timeout_s, _PAUSE_S))
            return
        for connection in wait(asked, timeout_s):
            broker_id = asked[connection]
            try:
                self._take(self._feeds[broker_id])
                self._feeds[broker_id].send()
            except (Unreachable, TimedOut) as error:
                self._lose(broker_id, error)
        self._leave_silent()

    def _leave_silent(self) -> None:
        """Give up connections on which an answer is long due, early enough to try others."""
        for broker_id, feed in list(self._feeds.items()):
            if feed.is_waiting and time.monotonic() - feed.asked_at_s > self._patience_s:
                self._lose(broker_id, TimedOut(f"broker {broker_id} does not answer"))

    def _take(self, feed: Feed) -> None:
        for place, answer in feed.receive():
            if answer.error_code != ErrorCode.none:
                self._part(feed, place, ErrorCode(answer.error_code))
                continue
            self._troubled_since_s.pop(place, None)
            records = feed.take(place, answer, self._positions[place])
            if records is not None:
                self._unread.add(records, self._ends[place])
                self._progress(place, records.next_offset)
                if place not in self._progress_at_s:
                    feed.session.drop(place)
        if feed.empty_answers >= _EMPTY_ANSWERS:
            for place in feed.session.places:
                self._pass_gap(feed, place)

    def _progress(self, place: Place, next_offset: int) -> None:
        self._positions[place] = next_offset
        self._progress_at_s[place] = time.monotonic()
        end = self._ends[place]
        if end is not None and next_offset >= end:
            del self._progress_at_s[place]

    def _pass_gap(self, feed: Feed, place: Place) -> None:
        end = self._ends[place]
        if end is None or feed.readable_to.get(place, -1) < end:
            return
        try:
            local_start = self._cluster.list_offsets([place], EARLIEST_LOCAL)[place].offset
        except ClientError as error:
            if not passes(error):
                raise
            self._leave(feed, place, error)
            return
        # What is in remote storage may be slow to come, and answers without records say nothing of it (KIP-405).
        if self._positions[place] >= local_start:
            self._progress(place, end)
            feed.session.drop(place)

    def _part(self, feed: Feed, place: Place, code: ErrorCode) -> None:
        """A broker does not serve a partition: look for its leader, unless the error says that there is no point in that."""
        topic, partition = place
        error: ClientError = BrokerError(
            code, f"cannot read partition {partition} of topic {topic}: {code.name.replace('_', ' ')}"
        )
        try:
            if code is ErrorCode.offset_out_of_range:
                self._check_range(place)
            elif not passes(error):
                raise error
        except ClientError as worse:
            if not passes(worse):
                raise
            error = worse
        self._leave(feed, place, error)

    def _check_range(self, place: Place) -> None:
        start = self._cluster.list_offsets([place], EARLIEST)[place].offset
        end = self._cluster.list_offsets([place], LATEST)[place].offset
        if not start <= self._positions[place] <= end:
            raise OffsetOutOfRange(*place, self._positions[place], start, end)

    def _leave(self, feed: Feed, place: Place, error: ClientError) -> None:
        feed.session.drop(place)
        self._trouble(place, error)

    def _lose(self, broker_id: int, error: ClientError) -> None:
        feed = self._feeds.pop(broker_id)
        feed.connection.close()
        for place in feed.session.places:
            self._trouble(place, error)

    def _trouble(self, place: Place, error: ClientError) -> None:
        self._homeless[place] = error
        self._resume_at_s = time.monotonic() + _PAUSE_S
        if time.monotonic() - self._troubled_since_s.setdefault(place, time.monotonic()) > self._timeout_s:
            raise error

    def _check_progress(self) -> None:
        now_s = time.monotonic()
        for (topic, partition), since_s in self._progress_at_s.items():
            end = self._ends[topic, partition]
            if end is not None and now_s - since_s > self._timeout_s:
                raise self._homeless.get((topic, partition)) or TimedOut(
                    f"partition {partition} of topic {topic} gives no records from offset "
                    f"{self._positions[topic, partition]} on, and was to be read to {end}",
                    "An open transaction may hold them back; or nothing has been written there yet.",
                )
