"""Where `catchment consume` reads from: assigned partitions, a consumer group or a share group, and until when."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from catchment.cli.failure import CommandError
from catchment.cli.output import print_note
from catchment.cli.wire import create_client, explain, explained, require_reachable

# The group has rebalanced. The next owner of the partitions starts at the last committed offsets, and prints again what
# could not be committed.
_OVERTAKEN = frozenset(
    {
        KafkaError._NO_OFFSET,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
    }
)
# The coordinator may be available again by the next interval.
_UNREACHABLE = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
_BATCH = 1000
_POLL_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# The output was read so slowly that max.poll.interval.ms passed. The member left the group, and joins it again.
_PASSING = frozenset({KafkaError._MAX_POLL_EXCEEDED})
_ACKNOWLEDGE_TIMEOUT_S = 30.0
_ANSWER_S = 0.05


class Source(Protocol):
    def take(self, most: int, wait_s: float) -> list[Message]:
        """The next records and events, at most `most` records. All earlier ones have been printed."""

    def printed(self, records: list[Message]) -> None:
        """Note that these records are printed."""

    def note_end(self, partition: int) -> None:
        """The partition has been read up to its end."""

    def is_at_end(self) -> bool:
        """Whether every partition has been read to its end."""

    def close(self) -> None: ...


def _consume(consumer: Any, most: int, wait_s: float) -> list[Message]:
    with explained("cannot read"):
        found: list[Message] = consumer.consume(most, wait_s)
    return found


class Assigned:
    """Partitions that were assigned by hand; no position is committed."""

    def __init__(self, consumer: Any, partitions: list[int]) -> None:
        self._consumer = consumer
        self._unfinished = set(partitions)

    def take(self, most: int, wait_s: float) -> list[Message]:
        return _consume(self._consumer, most, wait_s)

    def printed(self, records: list[Message]) -> None:
        return

    def note_end(self, partition: int) -> None:
        self._unfinished.discard(partition)

    def is_at_end(self) -> bool:
        return not self._unfinished

    def close(self) -> None:
        self._consumer.close()


class Grouped:
    """The partitions that a consumer group assigns. The position is committed at intervals, before a partition is revoked, and at the
    end.

    Commits do not wait for their response: an unreachable broker must not block the command.
    """

    def __init__(self, config: Mapping[str, Any], topic: str, commit_interval_s: float, timeout_s: float) -> None:
        self._commit_interval_s = commit_interval_s
        self._timeout_s = timeout_s
        self._committed_at = time.monotonic()
        self._is_behind = False
        self._commits_under_way = 0
        self._failure: KafkaError | None = None
        self._ended: set[int] = set()
        self._consumer: Any = create_client(Consumer, {**config, "on_commit": self._note_commit})
        with explained(f"cannot subscribe to topic {topic}"):
            self._consumer.subscribe(
                [topic],
                on_assign=self._forget_ends,
                on_revoke=self._commit_before_revocation,
                on_lost=self._forget_ends,
            )

    def take(self, most: int, wait_s: float) -> list[Message]:
        if self._is_behind and time.monotonic() - self._committed_at >= self._commit_interval_s:
            self._commit()
        found = _consume(self._consumer, most, wait_s)
        self._check()
        return found

    def printed(self, records: list[Message]) -> None:
        for last in {record.partition(): record for record in records}.values():
            try:
                self._consumer.store_offsets(last)
            except KafkaException as exception:
                # The partition was revoked in the meantime: its new owner prints these records again.
                if exception.args[0].code() != KafkaError._STATE:
                    raise explain(exception.args[0], "cannot store the group's position") from exception
        self._is_behind = True

    def note_end(self, partition: int) -> None:
        self._ended.add(partition)

    def is_at_end(self) -> bool:
        assigned = {topic_partition.partition for topic_partition in self._consumer.assignment()}
        return bool(assigned) and assigned <= self._ended

    def close(self) -> None:
        try:
            deadline_s = time.monotonic() + self._timeout_s
            while (self._is_behind or self._commits_under_way) and time.monotonic() < deadline_s:
                if not self._commits_under_way:
                    self._commit()
                # Polling is what delivers responses. Records that come with them are not printed, so their offsets are not stored.
                _consume(self._consumer, 1, _ANSWER_S)
                self._check()
            if self._is_behind or self._commits_under_way:
                raise CommandError(
                    "cannot commit the group's position: its coordinator does not answer",
                    "What was printed since the last commit will be printed again.",
                )
        finally:
            self._leave()

    def _leave(self) -> None:
        """Leave the group, and wait no longer than `--timeout`: librdkafka would wait for the response to a commit without a limit."""
        leaving = threading.Thread(target=self._consumer.close, daemon=True)
        leaving.start()
        leaving.join(self._timeout_s)

    def _forget_ends(self, consumer: Any, topic_partitions: list[Any]) -> None:
        self._ended -= {topic_partition.partition for topic_partition in topic_partitions}

    def _commit_before_revocation(self, consumer: Any, topic_partitions: list[Any]) -> None:
        if self._is_behind:
            self._commit()

    def _commit(self) -> None:
        self._committed_at = time.monotonic()
        self._is_behind = False
        self._commits_under_way += 1
        self._consumer.commit(asynchronous=True)

    def _note_commit(self, error: KafkaError | None, topic_partitions: list[Any]) -> None:
        self._commits_under_way -= 1
        failure = error or next(
            (topic_partition.error for topic_partition in topic_partitions if topic_partition.error is not None), None
        )
        if failure is None or failure.code() in _OVERTAKEN:
            return
        if failure.retriable() or failure.code() in _UNREACHABLE:
            self._is_behind = True
        else:
            self._failure = failure

    def _check(self) -> None:
        if self._failure is not None:
            raise explain(self._failure, "cannot commit the group's position")


class Shared:
    """Records that a share group acquires for this member; each is acknowledged once it is printed.

    Records that are not acknowledged when the member closes are released to the group, as if they had never been delivered.
    """

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._polled: list[Message] = []
        with explained(f"cannot subscribe to topic {topic}"):
            consumer.subscribe([topic])

    def take(self, most: int, wait_s: float) -> list[Message]:
        # Brokers return whole batches, which may exceed `most`; the client allows no poll before all records are acknowledged.
        if not self._polled:
            with explained("cannot read from the share group"):
                self._polled = list(self._consumer.poll(wait_s))
        taken, self._polled = self._polled[:most], self._polled[most:]
        return taken

    def printed(self, records: list[Message]) -> None:
        with explained("cannot acknowledge"):
            for record in records:
                self._consumer.acknowledge(record)
            outcomes = self._consumer.commit_sync(_ACKNOWLEDGE_TIMEOUT_S)
        for topic_partition, failure in outcomes.items():
            # If the broker was unreachable, the records go to another member when their acquisition lock expires.
            if failure is None or failure.args[0].code() in _UNREACHABLE:
                continue
            if failure.args[0].code() != KafkaError.INVALID_RECORD_STATE:
                raise explain(
                    failure.args[0],
                    f"cannot acknowledge records of {topic_partition.topic}-{topic_partition.partition}",
                )
            print_note(
                f"records of {topic_partition.topic}-{topic_partition.partition} were printed after their lock had expired: "
                "the group delivers them again"
            )

    def note_end(self, partition: int) -> None:
        """A share group has no end: records of other members may be released."""

    def is_at_end(self) -> bool:
        return False

    def close(self) -> None:
        with explained("cannot leave the share group"):
            self._consumer.close()


class Ends(NamedTuple):
    """When to stop reading; without any of them, at a signal."""

    max_messages: int | None
    until_end: bool
    idle_s: float | None


class Reader:
    """Prints the records of a source until one of the ends is reached."""

    def __init__(self, topic: str, write: Callable[[Message], bytes], bootstrap_servers: str) -> None:
        self._topic = topic
        self._write = write
        self._bootstrap_servers = bootstrap_servers
        self._lost_at: float | None = None
        self._asked_to_stop = False
        self.records = 0

    def run(self, source: Source, ends: Ends, timeout_s: float) -> None:
        heard_at = time.monotonic()
        left = sys.maxsize if ends.max_messages is None else ends.max_messages
        while left > 0 and not self._asked_to_stop:
            records = self._records(source, source.take(min(_BATCH, left), _POLL_S))
            if records:
                self._print(records)
                source.printed(records)
                left -= len(records)
                heard_at = time.monotonic()
            if ends.until_end and source.is_at_end():
                return
            if ends.idle_s is not None and time.monotonic() - heard_at >= ends.idle_s:
                return
            self._check_connection(timeout_s)

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """The first signal stops after the records that are being printed; a second one stops at once."""
        before = {number: signal.signal(number, self._ask_to_stop) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def note_error(self, error: KafkaError) -> None:
        """What the client library reports beside the records."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._lost_at = self._lost_at or time.monotonic()

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        if self._asked_to_stop:
            raise KeyboardInterrupt
        self._asked_to_stop = True

    def _records(self, source: Source, messages: list[Message]) -> list[Message]:
        """The messages that are records; events are handled, and errors raised."""
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                source.note_end(message.partition() or 0)
            elif not error.retriable() and error.code() not in _PASSING:
                partition = message.partition()
                where = "" if partition is None or partition < 0 else f" partition {partition}"
                raise explain(error, f"cannot read topic {self._topic}{where}")
        return records

    def _print(self, records: list[Message]) -> None:
        self._lost_at = None
        self.records += len(records)
        sys.stdout.buffer.write(b"".join([self._write(record) for record in records]))
        sys.stdout.buffer.flush()

    def _check_connection(self, timeout_s: float) -> None:
        """Fail if the brokers have been unreachable for the timeout: librdkafka would retry without a limit."""
        if self._lost_at is not None and time.monotonic() - self._lost_at >= timeout_s:
            require_reachable(self._bootstrap_servers)
            self._lost_at = None
