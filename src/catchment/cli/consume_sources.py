"""Where `catchment consume` takes its records from: partitions of its own choice, a consumer group, or a share group.

What was printed is done: a source hears of it after the output has left the process, and commits or acknowledges then. A
command that is killed in between prints those records again, and loses none.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from catchment.cli.failure import CommandError
from catchment.cli.output import print_note
from catchment.cli.wire import create_client, explain, explained

# The group goes on without us, or with us in a new generation. Whoever has the partitions next begins at what was committed
# before, and prints what we could not commit again.
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
# The coordinator may be back by the next interval.
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
_ACKNOWLEDGE_TIMEOUT_S = 30.0
_ANSWER_S = 0.05


class Source(Protocol):
    def take(self, most: int, wait_s: float) -> list[Message]:
        """The next records and events, at most so many records. All that was taken before has been printed."""

    def printed(self, records: list[Message]) -> None:
        """These are out."""

    def note_end(self, partition: int) -> None:
        """The partition has been read up to its end."""

    def is_at_end(self) -> bool:
        """Whether that is so for all there are to read."""

    def close(self) -> None: ...


def _consume(consumer: Any, most: int, wait_s: float) -> list[Message]:
    with explained("cannot read"):
        found: list[Message] = consumer.consume(most, wait_s)
    return found


class Assigned:
    """Partitions that were chosen by hand; nobody remembers how far they were read."""

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
    """What the group gives us; how far we have printed is committed at intervals, before a partition goes, and at the end.

    Commits do not wait for their answer, or a lost broker would hold us for as long as it is away.
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
                [topic], on_assign=self._begin, on_revoke=self._commit_before_they_go, on_lost=self._begin
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
                # The partition has left us since: its new reader prints these records again.
                if exception.args[0].code() != KafkaError._STATE:
                    raise explain(exception.args[0], "cannot note the group's position") from exception
        self._is_behind = True

    def note_end(self, partition: int) -> None:
        self._ended.add(partition)

    def is_at_end(self) -> bool:
        assigned = {place.partition for place in self._consumer.assignment()}
        return bool(assigned) and assigned <= self._ended

    def close(self) -> None:
        try:
            deadline_s = time.monotonic() + self._timeout_s
            while (self._is_behind or self._commits_under_way) and time.monotonic() < deadline_s:
                if not self._commits_under_way:
                    self._commit()
                # Answers come with records, which nobody prints any more, so that they do not count as done.
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
        """The client waits for ever for the answer to a commit before it leaves; we wait as long as we were told to."""
        leaving = threading.Thread(target=self._consumer.close, daemon=True)
        leaving.start()
        leaving.join(self._timeout_s)

    def _begin(self, consumer: Any, places: list[Any]) -> None:
        self._ended -= {place.partition for place in places}

    def _commit_before_they_go(self, consumer: Any, places: list[Any]) -> None:
        if self._is_behind:
            self._commit()

    def _commit(self) -> None:
        self._committed_at = time.monotonic()
        self._is_behind = False
        self._commits_under_way += 1
        self._consumer.commit(asynchronous=True)

    def _note_commit(self, error: KafkaError | None, places: list[Any]) -> None:
        self._commits_under_way -= 1
        failure = error or next((place.error for place in places if place.error is not None), None)
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
    """Records that the share group hands to us alone; each is acknowledged once it is printed.

    What we hold and have not acknowledged when we close goes back to the group, as if it had never been delivered.
    """

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._polled: list[Message] = []
        with explained(f"cannot subscribe to topic {topic}"):
            consumer.subscribe([topic])

    def take(self, most: int, wait_s: float) -> list[Message]:
        # Brokers give whole batches, which may be more than anybody asked for; the client wants no poll before all is done.
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
        for place, failure in outcomes.items():
            # Where the broker could not be told, the records go to another member when their lock has run out.
            if failure is None or failure.args[0].code() in _UNREACHABLE:
                continue
            if failure.args[0].code() != KafkaError.INVALID_RECORD_STATE:
                raise explain(failure.args[0], f"cannot acknowledge records of {place.topic}-{place.partition}")
            print_note(
                f"records of {place.topic}-{place.partition} were printed too late: the group gives them to others again"
            )

    def note_end(self, partition: int) -> None:
        """A share group has no end: what others hold may come back."""

    def is_at_end(self) -> bool:
        return False

    def close(self) -> None:
        with explained("cannot leave the share group"):
            self._consumer.close()
