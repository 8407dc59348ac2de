"""Every state of a transactional id, every request about it, and every relation of the sender to it: one response each, from any broker.

States in which markers are still being written are held by a topic whose `min.insync.replicas` no broker alone can reach: its
markers are rejected, and the coordinator retries. The last epochs of a producer id come from records that were written to the
transaction log before the broker started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, ProducerId, TopicName
from kio.static.primitive import i8, i16, i32, i64
from tests.broker.handlers.group_requests import fetch_group
from tests.broker.handlers.transaction_requests import NO_PRODUCER, Outcome, TransactionWire
from tests.broker.handlers.transactional_producer import TransactionalProducer, Versions
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.commands import LAST_EPOCH
from catchment.coordination.transactions.records import encode_key, encode_transaction
from catchment.coordination.transactions.state import new_producer
from catchment.protocol.batch import iterate_headers, patched_head, read_header
from catchment.protocol.records import encode_batch, numbered

FREE, BLOCKED = "first-record", "blocked"
TIMEOUT_MS = 900_000
"""As long as Kafka allows: no transaction may end by itself."""
FIRST_EPOCH = 3
"""So that two epochs before it are epochs too."""
AGED_COUNT = 300
_FIRST_AGED_ID = 5_000_000
_OTHER_ID = 4_000_000

Cell = tuple[str, str, str]
"""The situation, the request and who sends it."""
Answers = dict[Cell, str]

LETTERS = {
    ErrorCode.none: "ok",
    ErrorCode.concurrent_transactions: "C",
    ErrorCode.producer_fenced: "F",
    ErrorCode.invalid_producer_epoch: "E",
    ErrorCode.invalid_producer_id_mapping: "M",
    ErrorCode.invalid_txn_state: "S",
    ErrorCode.transaction_abortable: "A",
    ErrorCode.not_enough_replicas: "N",
    ErrorCode.unknown_server_error: "U",
}


def put_aged_producers(log_path: Path) -> None:
    """Append producers at their last epoch to the transaction log of a broker that is not running."""
    data = log_path.read_bytes()
    last = [header for _, header in iterate_headers(memoryview(data))][-1]
    now_ms = int(time.time() * 1000)
    records = []
    for number in range(AGED_COUNT):
        young = new_producer(_FIRST_AGED_ID + number, TIMEOUT_MS, now_ms)
        records.append((encode_key(_aged_name(number)), encode_transaction(young._replace(producer_epoch=LAST_EPOCH))))
    batch = encode_batch(numbered(records), base_timestamp_ms=now_ms)
    head = patched_head(last.next_offset, read_header(batch).length, last.leader_epoch)
    with log_path.open("ab") as log:
        log.write(head + batch[len(head) :])


def _aged_name(number: int) -> str:
    return f"aged-{number}"


def make_internal_topics(wire: Wire) -> None:
    """Have the coordinators made and loaded."""
    TransactionWire(wire, "first").begin()
    find = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("g",))
    wait_until(lambda: wire.ask(find, 6).coordinators[0].error_code is ErrorCode.none, "there is no coordinator")
    wait_until(lambda: fetch_group(wire).error_code is ErrorCode.none, "the coordinator does not load")


class Subject:
    """A transactional id in one situation: its current producer at the coordinator, and the former one."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.x = TransactionWire(wire, name)
        self.known_before: Producer | None = None
        """The producer before its epochs were exhausted."""
        self.granted: Producer | None = None
        """The producer once the markers are written, if the last response had it."""

    def init(self, sender: Producer = NO_PRODUCER) -> Outcome:
        """Kafka rejects the first requests while it fetches a block of producer ids: those responses are not compared."""

        def outcome() -> Outcome | None:
            found = self.x.init(sender, timeout_ms=TIMEOUT_MS)
            return None if found[0] is ErrorCode.coordinator_load_in_progress else found

        return wait_until(outcome, "there is no producer id")

    def begin(self) -> Producer:
        while True:
            error, producer = self.init()
            assert error is ErrorCode.none, error
            if producer.epoch == FIRST_EPOCH:
                return producer

    def aged(self) -> Producer:
        state = self.x.describe()
        assert state.producer_epoch == LAST_EPOCH
        self.known_before = Producer(state.producer_id, state.producer_epoch)
        return self.known_before

    def add(self, producer: Producer, topic: str, version: int) -> None:
        assert set(self.x.add(producer, {topic: [0]}, version).values()) == {ErrorCode.none}

    def end(self, producer: Producer, version: int, *, is_commit: bool) -> None:
        error, granted = self.x.end(producer, version, is_commit=is_commit)
        assert error is ErrorCode.none, error
        self.granted = granted

    def fence(self) -> None:
        assert self.init()[0] is ErrorCode.concurrent_transactions

    def state(self) -> tuple[object, ...]:
        state = self.x.describe()
        return state.error_code, state.transaction_state, state.producer_id, state.producer_epoch, state.topics

    def current(self) -> Producer:
        state = self.x.describe()
        return Producer(state.producer_id, state.producer_epoch)


def _begun(topic: str, version: int) -> Callable[[Subject], None]:
    return lambda subject: subject.add(subject.begin(), topic, version)


def _ended(topic: str, version: int, *, is_commit: bool, is_aged: bool = False) -> Callable[[Subject], None]:
    def make(subject: Subject) -> None:
        producer = subject.aged() if is_aged else subject.begin()
        subject.add(producer, topic, version)
        subject.end(producer, version, is_commit=is_commit)
        if topic != BLOCKED:
            subject.x.completed()

    return make


def _fenced(topic: str, *, is_aged: bool = False) -> Callable[[Subject], None]:
    def make(subject: Subject) -> None:
        subject.add(subject.aged() if is_aged else subject.begin(), topic, 5)
        subject.fence()
        if topic != BLOCKED:
            subject.x.completed()

    return make


def _rotated(*, sends_producer: bool) -> Callable[[Subject], None]:
    def make(subject: Subject) -> None:
        aged = subject.aged()
        error, producer = subject.init(aged if sends_producer else NO_PRODUCER)
        assert (error, producer.epoch) == (ErrorCode.none, 0)

    return make


def _aged_ongoing(subject: Subject) -> None:
    subject.add(subject.aged(), FREE, 5)


SITUATIONS: Mapping[str, Callable[[Subject], object]] = {
    "unknown": lambda _: None,
    "Empty": Subject.begin,
    "Ongoing 1": _begun(FREE, 3),
    "Ongoing 2": _begun(FREE, 5),
    "PrepareCommit 1": _ended(BLOCKED, 3, is_commit=True),
    "PrepareCommit 2": _ended(BLOCKED, 5, is_commit=True),
    "PrepareAbort 1": _ended(BLOCKED, 3, is_commit=False),
    "PrepareAbort 2": _ended(BLOCKED, 5, is_commit=False),
    "PrepareAbort fenced": _fenced(BLOCKED),
    "CompleteCommit 1": _ended(FREE, 3, is_commit=True),
    "CompleteCommit 2": _ended(FREE, 5, is_commit=True),
    "CompleteAbort 1": _ended(FREE, 3, is_commit=False),
    "CompleteAbort 2": _ended(FREE, 5, is_commit=False),
    "CompleteAbort fenced": _fenced(FREE),
    "Empty aged": Subject.aged,
    "Ongoing aged": _aged_ongoing,
    "PrepareCommit aged": _ended(BLOCKED, 5, is_commit=True, is_aged=True),
    "PrepareAbort aged": _ended(BLOCKED, 5, is_commit=False, is_aged=True),
    "PrepareAbort aged fenced": _fenced(BLOCKED, is_aged=True),
    "CompleteCommit aged": _ended(FREE, 5, is_commit=True, is_aged=True),
    "CompleteAbort aged": _ended(FREE, 5, is_commit=False, is_aged=True),
    "CompleteAbort aged fenced": _fenced(FREE, is_aged=True),
    "Empty rotated": _rotated(sends_producer=False),
    "Empty rotated, said who": _rotated(sends_producer=True),
}
"""The number is the transaction version: in version 2 every end bumps the epoch."""


def senders(subject: Subject) -> dict[str, Producer]:
    """The senders of requests, by their relation to the coordinator's current producer."""
    producer_id, epoch = subject.current()
    found = {
        "older": Producer(producer_id, epoch - 2),
        "before": Producer(producer_id, epoch - 1),
        "current": Producer(producer_id, epoch),
        "next": Producer(producer_id, epoch + 1),
        "other": Producer(_OTHER_ID, max(epoch, 0)),
    }
    if subject.known_before is not None and subject.known_before.producer_id != producer_id:
        found["former"] = subject.known_before
    if subject.granted is not None and subject.granted.producer_id not in (-1, producer_id):
        found["granted"] = subject.granted
    return {name: one for name, one in found.items() if one.producer_id >= 0 and 0 <= one.epoch < 1 << 15}


def _granted(before: Producer, outcome: Outcome) -> str:
    """The outcome, and the epoch bump if the response has one."""
    error, producer = outcome
    if error is not ErrorCode.none or producer.producer_id < 0:
        return LETTERS[error]
    return f"ok{producer.epoch - before.epoch:+d}" if producer.producer_id == before.producer_id else "ok new"


def _init(subject: Subject, sender: Producer) -> str:
    before = subject.current()
    return _granted(before, subject.init(sender))


def _end(version: int, *, is_commit: bool) -> Callable[[Subject, Producer], str]:
    def ask(subject: Subject, sender: Producer) -> str:
        before = subject.current()
        return _granted(before, subject.x.end(sender, version, is_commit=is_commit))

    return ask


def _add(version: int, *, verify_only: bool = False) -> Callable[[Subject, Producer], str]:
    def ask(subject: Subject, sender: Producer) -> str:
        (code,) = subject.x.add(sender, {FREE: [0]}, version, verify_only=verify_only).values()
        return LETTERS[code]

    return ask


def _commit_offset(version: int) -> Callable[[Subject, Producer], str]:
    def ask(subject: Subject, sender: Producer) -> str:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(1), committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=subject.x.transactional_id,
            group_id=GroupId("g"),
            producer_id=ProducerId(sender.producer_id),
            producer_epoch=i16(sender.epoch),
            topics=(TxnOffsetCommitRequestTopic(name=TopicName(FREE), partitions=(partition,)),),
        )
        code: ErrorCode = subject.x.wire.ask(request, version).topics[0].partitions[0].error_code
        return LETTERS[code]

    return ask


def _produce(version: int) -> Callable[[Subject, Producer], str]:
    def ask(subject: Subject, sender: Producer) -> str:
        producer = TransactionalProducer(
            subject.x.wire, Versions(version, commit_offsets=5, end=5), subject.x.transactional_id
        )
        producer.producer_id, producer.epoch = ProducerId(sender.producer_id), sender.epoch
        return LETTERS[producer.append(FREE, b"record")]

    return ask


REQUESTS: Mapping[str, Callable[[Subject, Producer], str]] = {
    "init": _init,
    "add": _add(3),
    "add by broker": _add(5),
    "verify": _add(5, verify_only=True),
    "add offsets": lambda subject, sender: LETTERS[subject.x.add_offsets(sender)],
    "commit 1": _end(4, is_commit=True),
    "abort 1": _end(4, is_commit=False),
    "commit 2": _end(5, is_commit=True),
    "abort 2": _end(5, is_commit=False),
    "offsets 1": _commit_offset(4),
    "offsets 2": _commit_offset(5),
    "produce 1": _produce(11),
    "produce 2": _produce(12),
}
NEW_INSTANCE = "new instance"
"""A producer that requests an id without its former id and epoch."""


class Interview:
    """Asks one broker everything; an id whose state has changed is replaced by another in the same situation."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._numbers = count()
        self._aged = count()
        self._subjects: dict[str, Subject] = {}
        make_internal_topics(wire)

    def answers(self) -> Answers:
        return dict(self._cells())

    def _cells(self) -> Iterator[tuple[Cell, str]]:
        for situation in SITUATIONS:
            relations = senders(self._subject(situation)) or {"current": Producer(_OTHER_ID, 0)}
            for request, ask in REQUESTS.items():
                for relation in relations:
                    yield (situation, request, relation), self._ask(situation, ask, relation)
            yield (situation, "init", NEW_INSTANCE), self._ask(situation, REQUESTS["init"], NEW_INSTANCE)

    def _ask(self, situation: str, ask: Callable[[Subject, Producer], str], relation: str) -> str:
        subject = self._subject(situation)
        state = subject.state()
        relations = {"current": Producer(_OTHER_ID, 0), **senders(subject), NEW_INSTANCE: NO_PRODUCER}
        answer = ask(subject, relations[relation])
        if answer.startswith("ok") or subject.state() != state:
            del self._subjects[situation]
        return answer

    def _subject(self, situation: str) -> Subject:
        if situation not in self._subjects:
            is_aged = "aged" in situation or "rotated" in situation
            name = _aged_name(next(self._aged)) if is_aged else f"young-{next(self._numbers)}"
            subject = self._subjects[situation] = Subject(self._wire, name)
            SITUATIONS[situation](subject)
        return self._subjects[situation]
