"""Read the records of many partitions as Arrow batches from their current leaders.

    with Cluster("localhost:9092") as cluster, Reader(cluster, [Span("orders", 0, start=0, end=1000)]) as reader:
        for read in reader:
            print(read.partition, read.batch.num_rows)

While a batch is decoded and used, the next response of its broker is already in flight. The records of a partition are in
order; there is no order between partitions.

Gaps
    A log that an unclean leader election truncated is detected only if the next offset to read is gone (KIP-320).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

import pyarrow
from kio.schema.errors import ErrorCode

from catchment.client.cluster import Cluster
from catchment.client.columns.schema import DEFAULT_COLUMNS, record_schema
from catchment.client.errors import BrokerError, ClientError, TimedOut, Unreachable, passes
from catchment.client.fetch.broker_fetcher import BrokerFetcher, Fetched
from catchment.client.fetch.session import FetchLimits, Wanted
from catchment.client.network.connection import wait
from catchment.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from catchment.client.topic_metadata import TopicPartition


class Read(NamedTuple):
    """Some rows of one partition. `next_offset` is the offset to read next."""

    topic: str
    partition: int
    batch: pyarrow.RecordBatch
    next_offset: int


class FetchBuffer:
    """Fetched records that are not decoded yet, in order."""

    def __init__(self, columns: tuple[str, ...], *, validate_crc: bool) -> None:
        self._columns = columns
        self._validate_crc = validate_crc
        self._fetched: deque[tuple[Fetched, int | None]] = deque()

    def __len__(self) -> int:
        return len(self._fetched)

    def add(self, fetched: Fetched, end_offset: int | None) -> None:
        """Add fetched records, of which the rows before `end_offset` are wanted."""
        self._fetched.append((fetched, end_offset))

    def take(self) -> Read:
        """The rows of the first fetch, or some of them if its records unpack to a lot. There may be none in range."""
        # Numba takes longer to load than most plans take, and processes that only plan decode nothing.
        from catchment.client.columns.decoding import decode

        fetched, end_offset = self._fetched[0]
        topic, partition = fetched.topic_partition
        decoded = decode(
            fetched.records,
            self._columns,
            topic=topic,
            partition=partition,
            start_offset=fetched.start_offset,
            end_offset=end_offset,
            aborted=fetched.aborted,
            validate_crc=self._validate_crc,
        )
        if fetched.start_offset < decoded.next_offset < fetched.next_offset:
            self._fetched[0] = fetched._replace(start_offset=decoded.next_offset), end_offset
        else:
            self._fetched.popleft()
        return Read(topic, partition, decoded.batch, decoded.next_offset)


_PAUSE_S: Final = 0.05
_PATIENCE: Final = 0.5
"""The fraction of the timeout that one response may take."""
_EMPTY_ANSWERS: Final = 3
"""After this many responses without records there are none before the end: compaction has removed them."""


class Span(NamedTuple):
    """What to read of a partition: from `start` up to but not including `end`, or without an end."""

    topic: str
    partition: int
    start: int
    end: int | None = None


class OffsetOutOfRange(ClientError):
    """The offset to read is not in the log: retention has deleted it, or the topic was created again."""

    def __init__(self, topic: str, partition: int, offset: int, log_start: int, log_end: int) -> None:
        lost = f"offset {offset} is deleted" if offset < log_start else f"offset {offset} has not been written"
        super().__init__(
            f"{lost}: partition {partition} of topic {topic} has the offsets {log_start} to {log_end}",
            "Start again within these offsets. If records were deleted too early, raise the retention of the topic.",
        )
        self.args = (topic, partition, offset, log_start, log_end)
        self.topic, self.partition, self.offset = topic, partition, offset
        self.log_start, self.log_end = log_start, log_end


class Reader:
    """Reads spans. Raises an error if a partition with records makes no progress for `timeout_s`.

    After an error every call raises it again, so that no caller reads on after records that it did not get.
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
        self._fetchers: dict[int, BrokerFetcher] = {}
        self._ends: dict[TopicPartition, int | None] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._progress_at_s: dict[TopicPartition, float] = {}
        self._troubled_since_s: dict[TopicPartition, float] = {}
        self._homeless: dict[TopicPartition, ClientError | None] = {}
        self._resume_at_s = 0.0
        self._buffer = FetchBuffer(tuple(columns), validate_crc=validate_crc)
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
        """All records up to the ends of the spans."""
        while not self.is_finished:
            yield from self.poll(self._timeout_s)

    @property
    def is_finished(self) -> bool:
        """Whether every span is read to its end."""
        return not self._progress_at_s and not self._buffer

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to fetch of each partition. It is ahead of the returned records unless a poll has been iterated to its end."""
        return dict(self._positions)

    def poll(self, timeout_s: float) -> Iterator[Read]:
        """The next records; none if they take longer than `timeout_s`. What is not iterated is returned by the next call."""
        if self._failure is not None:
            raise self._failure
        try:
            self._fetch(time.monotonic() + timeout_s)
            while self._buffer:
                read = self._buffer.take()
                if read.batch.num_rows:
                    yield read
        except Exception as error:
            self._failure = error
            raise

    def close(self) -> None:
        """Close the fetch sessions and the connections."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()

    def _begin(self, span: Span) -> None:
        topic_partition = (span.topic, span.partition)
        if topic_partition in self._positions:
            raise ValueError(f"partition {span.partition} of topic {span.topic} is named twice")
        self._positions[topic_partition] = span.start
        self._ends[topic_partition] = span.end
        if span.end is None or span.start < span.end:
            self._progress_at_s[topic_partition] = time.monotonic()
            self._homeless[topic_partition] = None

    def _fetch(self, deadline_s: float) -> None:
        """Wait until there are records to return, or nothing is left to wait for."""
        while self._progress_at_s and not self._buffer:
            self._settle_homeless()
            self._send_requests()
            left_s = deadline_s - time.monotonic()
            longest_s = _PAUSE_S if self._homeless else self._patience_s / 2
            self._receive(max(0.0, min(left_s, longest_s)))
            if left_s <= 0:
                return
            if not self._buffer:
                self._check_progress()

    def _settle_homeless(self) -> None:
        """Find the leader of each partition that has none, or whose broker rejected it."""
        if not self._homeless or time.monotonic() < self._resume_at_s:
            return
        try:
            if any(self._homeless.values()):
                self._cluster.refresh(sorted({topic for topic, _ in self._homeless}))
            for topic_partition in list(self._homeless):
                self._assign(topic_partition)
        except ClientError as error:
            if not passes(error):
                raise
            for topic_partition in self._homeless:
                self._trouble(topic_partition, error)

    def _assign(self, topic_partition: TopicPartition) -> None:
        topic_id = self._cluster.topic_id(topic_partition[0])
        try:
            leader = self._cluster.known_leader(*topic_partition)
        except BrokerError as error:
            # The other partitions need not wait for its election.
            self._trouble(topic_partition, error)
            return
        fetcher = self._fetchers.get(leader.broker_id)
        if fetcher is None:
            connection = self._cluster.connection(leader.broker_id)
            is_one_of_many = len(self._positions) > 1
            fetcher = BrokerFetcher(
                connection, self._limits, read_committed=self._read_committed, keeps_session=is_one_of_many
            )
            self._fetchers[leader.broker_id] = fetcher
        fetcher.session.want(topic_partition, Wanted(self._positions[topic_partition], leader.epoch, topic_id))
        del self._homeless[topic_partition]

    def _send_requests(self) -> None:
        for broker_id, fetcher in list(self._fetchers.items()):
            try:
                fetcher.send()
            except (Unreachable, TimedOut) as error:
                self._lose(broker_id, error)

    def _receive(self, timeout_s: float) -> None:
        """Receive the next responses, and send the requests after them."""
        asked = {fetcher.connection: broker_id for broker_id, fetcher in self._fetchers.items() if fetcher.is_waiting}
        if not asked:
            time.sleep(min(timeout_s, _PAUSE_S))
            return
        for connection in wait(asked, timeout_s):
            broker_id = asked[connection]
            try:
                self._take(self._fetchers[broker_id])
                self._fetchers[broker_id].send()
            except (Unreachable, TimedOut) as error:
                self._lose(broker_id, error)
        self._leave_silent()

    def _leave_silent(self) -> None:
        """Close connections on which a response is overdue, early enough to try other brokers."""
        for broker_id, fetcher in list(self._fetchers.items()):
            if fetcher.is_waiting and time.monotonic() - fetcher.asked_at_s > self._patience_s:
                self._lose(broker_id, TimedOut(f"broker {broker_id} does not respond"))

    def _take(self, fetcher: BrokerFetcher) -> None:
        for topic_partition, response in fetcher.receive():
            if response.error_code != ErrorCode.none:
                self._part(fetcher, topic_partition, ErrorCode(response.error_code))
                continue
            self._troubled_since_s.pop(topic_partition, None)
            records = fetcher.take(topic_partition, response, self._positions[topic_partition])
            if records is not None:
                self._buffer.add(records, self._ends[topic_partition])
                self._progress(topic_partition, records.next_offset)
                if topic_partition not in self._progress_at_s:
                    fetcher.session.drop(topic_partition)
        if fetcher.empty_responses >= _EMPTY_ANSWERS:
            for topic_partition in fetcher.session.topic_partitions:
                self._pass_gap(fetcher, topic_partition)

    def _progress(self, topic_partition: TopicPartition, next_offset: int) -> None:
        self._positions[topic_partition] = next_offset
        self._progress_at_s[topic_partition] = time.monotonic()
        end = self._ends[topic_partition]
        if end is not None and next_offset >= end:
            del self._progress_at_s[topic_partition]

    def _pass_gap(self, fetcher: BrokerFetcher, topic_partition: TopicPartition) -> None:
        end = self._ends[topic_partition]
        if end is None or fetcher.readable_to.get(topic_partition, -1) < end:
            return
        try:
            local_start = self._cluster.list_offsets([topic_partition], EARLIEST_LOCAL)[topic_partition].offset
        except ClientError as error:
            if not passes(error):
                raise
            self._leave(fetcher, topic_partition, error)
            return
        # Records in remote storage may be slow to arrive, so responses without records do not mean that there are none (KIP-405).
        if self._positions[topic_partition] >= local_start:
            self._progress(topic_partition, end)
            fetcher.session.drop(topic_partition)

    def _part(self, fetcher: BrokerFetcher, topic_partition: TopicPartition, code: ErrorCode) -> None:
        """Handle an error of a partition: look for its leader again, unless the error is not retriable."""
        topic, partition = topic_partition
        error: ClientError = BrokerError(
            code, f"cannot read partition {partition} of topic {topic}: {code.name.replace('_', ' ')}"
        )
        try:
            if code is ErrorCode.offset_out_of_range:
                self._check_range(topic_partition)
            elif not passes(error):
                raise error
        except ClientError as worse:
            if not passes(worse):
                raise
            error = worse
        self._leave(fetcher, topic_partition, error)

    def _check_range(self, topic_partition: TopicPartition) -> None:
        start = self._cluster.list_offsets([topic_partition], EARLIEST)[topic_partition].offset
        end = self._cluster.list_offsets([topic_partition], LATEST)[topic_partition].offset
        if not start <= self._positions[topic_partition] <= end:
            raise OffsetOutOfRange(*topic_partition, self._positions[topic_partition], start, end)

    def _leave(self, fetcher: BrokerFetcher, topic_partition: TopicPartition, error: ClientError) -> None:
        fetcher.session.drop(topic_partition)
        self._trouble(topic_partition, error)

    def _lose(self, broker_id: int, error: ClientError) -> None:
        fetcher = self._fetchers.pop(broker_id)
        fetcher.connection.close()
        for topic_partition in fetcher.session.topic_partitions:
            self._trouble(topic_partition, error)

    def _trouble(self, topic_partition: TopicPartition, error: ClientError) -> None:
        self._homeless[topic_partition] = error
        self._resume_at_s = time.monotonic() + _PAUSE_S
        if time.monotonic() - self._troubled_since_s.setdefault(topic_partition, time.monotonic()) > self._timeout_s:
            raise error

    def _check_progress(self) -> None:
        now_s = time.monotonic()
        for (topic, partition), since_s in self._progress_at_s.items():
            end = self._ends[topic, partition]
            if end is not None and now_s - since_s > self._timeout_s:
                raise self._homeless.get((topic, partition)) or TimedOut(
                    f"partition {partition} of topic {topic} returns no records from offset "
                    f"{self._positions[topic, partition]} on, but was to be read to {end}",
                    "An open transaction may hold them back, or nothing has been written there yet.",
                )
