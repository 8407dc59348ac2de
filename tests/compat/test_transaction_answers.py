"""The same requests about transactions, to Apache Kafka and to Catchment: the same responses, one by one.

The requests are those that well-behaved clients do not send: with old epochs, for the other outcome, twice, out of turn. What
the two brokers cannot agree on, such as which number a producer id has, is left out of the comparison.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.transaction_requests import NO_PRODUCER, Outcome, TransactionWire, list_transactions
from tests.broker.handlers.wire import Wire
from tests.compat.java_tool import require_java

from catchment.bench.peers.kafka import KafkaServer
from catchment.coordination.coordinator_shard import Producer
from catchment.testing.embedded import Broker

# What the benchmark's Kafka has when it is ready.
TOPIC = "first-record"
T0 = {TOPIC: [0]}
Steps = list[tuple[str, object]]


class Transcript:
    """Sends requests, and records the responses."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.x = TransactionWire(wire, "x")
        self.transcript: Steps = []

    def note(self, question: str, answer: object) -> None:
        self.transcript.append((question, answer))

    def end(self, question: str, producer: Producer, version: int = 5, *, is_commit: bool = True) -> Producer:
        outcome = self.x.end(producer, version, is_commit=is_commit)
        self.note(question, _without_id(outcome))
        self.x.completed()
        return outcome[1]

    def init(self, question: str, producer: Producer = NO_PRODUCER) -> Producer:
        outcome = self.x.init_until_answered(producer)
        self.note(question, _without_id(outcome))
        return outcome[1]

    def state(self, question: str) -> None:
        state = self.x.completed()
        has_start = state.transaction_start_time is not None
        self.note(question, (state.error_code, state.transaction_state, state.producer_epoch, has_start, state.topics))


def _without_id(outcome: Outcome) -> tuple[ErrorCode, bool, int]:
    error, producer = outcome
    return error, producer.producer_id >= 0, producer.epoch


def _unknown_producers(talk: Transcript) -> None:
    x, unknown = talk.x, Producer(5, 0)
    talk.state("describe an unknown id")
    talk.end("end an unknown id's", unknown)
    talk.note("add to an unknown id's", x.add(unknown, T0))
    talk.note("verify an unknown id's", x.add(unknown, T0, 5, verify_only=True))
    talk.note("no time", x.init(timeout_ms=0))
    talk.note("too much time", x.init(timeout_ms=900_001))
    talk.note("half a producer", x.init(Producer(5, -1)))


def _empty_transactions(talk: Transcript) -> None:
    producer = talk.init("begin")
    talk.state("nothing begun")
    talk.end("commit nothing, without bump", producer, 3)
    talk.end("abort nothing, without bump", producer, 3, is_commit=False)
    talk.end("commit nothing", producer)
    after = talk.end("abort nothing", producer, is_commit=False)
    talk.state("nothing aborted")
    talk.end("abort nothing again", producer, is_commit=False)
    talk.end("commit what was aborted", producer)
    talk.end("commit the next nothing", after)
    talk.end("abort the next nothing", after, is_commit=False)


def _partitions(talk: Transcript) -> None:
    x = talk.x
    producer = talk.init("begin")
    older, newer = producer._replace(epoch=producer.epoch - 1), producer._replace(epoch=producer.epoch + 1)
    talk.note("verify before", x.add(producer, T0, 5, verify_only=True))
    talk.note("unknown topic", x.add(producer, {TOPIC: [0], "nope": [0, 1]}))
    talk.note("unknown partition", x.add(producer, {TOPIC: [0, 9]}))
    talk.note("other id", x.add(producer._replace(producer_id=producer.producer_id + 77), T0))
    for version in (1, 3):
        talk.note(f"older, version {version}", x.add(older, T0, version))
        talk.note(f"newer, version {version}", x.add(newer, T0, version))
        talk.note(f"older offsets, version {version}", x.add_offsets(older, version))
    talk.note("add", x.add(producer, T0))
    talk.note("add again", x.add(producer, T0))
    talk.state("begun")
    talk.note("verify", x.add(producer, {TOPIC: [0], "__transaction_state": [0]}, 5, verify_only=True))
    talk.note("verify older", x.add(older, T0, 5, verify_only=True))
    for version in (1, 3, 5):
        talk.end(f"end older, version {version}", older, version)
    talk.end("end other id", producer._replace(producer_id=producer.producer_id + 99))
    talk.end("commit", producer, 3)
    talk.note("verify after", x.add(producer, T0, 5, verify_only=True))


def _ends_again(talk: Transcript) -> None:
    x = talk.x
    producer = talk.init("begin")
    x.add(producer, T0)
    talk.end("commit without bump", producer, 3)
    talk.end("commit again", producer, 3)
    talk.end("abort after commit", producer, 3, is_commit=False)
    talk.end("commit with bump after one without", producer)
    x.add(producer, T0)
    talk.end("abort without bump", producer, 3, is_commit=False)
    talk.end("commit after abort", producer, 3)
    talk.end("abort again", producer, 3, is_commit=False)
    talk.note("add by a broker", x.add(producer, T0, 5))
    after = talk.end("commit with bump", producer)
    talk.end("commit with bump again", producer)
    talk.end("abort after commit with bump", producer, is_commit=False)
    talk.end("commit the next", after)
    talk.note("add with the epoch before", x.add(producer, T0))


def _takeovers(talk: Transcript) -> None:
    x = talk.x
    old = talk.init("begin")
    new = talk.init("take over")
    talk.end("commit after takeover", old, 3)
    talk.note("add after takeover", x.add(old, T0))
    talk.init("go on after takeover", old)
    talk.note("go on after takeover, version 3", x.init(old, 3))
    raised = talk.init("go on", new)
    talk.init("go on again", new)
    talk.init("go on as another", raised._replace(producer_id=raised.producer_id + 5))
    x.add(raised, T0)
    talk.note("take over while open", x.init())
    talk.state("aborted by takeover")
    talk.end("abort by the old one", raised, is_commit=False)
    talk.end("commit by the old one", raised)
    talk.end("commit by the old one, without bump", raised, 3)
    talk.note("add by the old one", x.add(raised, T0))
    talk.init("take over at last")
    talk.state("taken over")


def _lists(talk: Transcript) -> None:
    producer = talk.init("begin")
    talk.x.add(producer, T0)
    for question, answer in {
        "all": list_transactions(talk.wire),
        "by state": list_transactions(talk.wire, states=("Ongoing", "Nope", "Dead")),
        "by another state": list_transactions(talk.wire, states=("Empty",)),
        "by producer": list_transactions(talk.wire, producer_ids=(producer.producer_id,)),
        "by another producer": list_transactions(talk.wire, producer_ids=(producer.producer_id + 5,)),
        "by duration": list_transactions(talk.wire, duration_ms=100_000),
        "by pattern": list_transactions(talk.wire, pattern="[xyz]"),
        "by part of the name": list_transactions(talk.wire, pattern=""),
        "by no pattern": list_transactions(talk.wire, pattern="("),
    }.items():
        # Kafka may know others from another test.
        found = [state.transaction_state for state in answer.transaction_states if state.transactional_id == "x"]
        talk.note(question, (answer.error_code, answer.unknown_state_filters, found))
    talk.end("commit", producer)


SCENES: list[Callable[[Transcript], None]] = [
    _unknown_producers,
    _empty_transactions,
    _partitions,
    _ends_again,
    _takeovers,
    _lists,
]


@pytest.fixture(scope="module")
def kafka_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka") / "data"


@pytest.fixture(scope="module")
def kafka(kafka_directory: Path) -> Iterator[Transcript]:
    require_java()
    settings = {"transaction.state.log.num.partitions": "1", "log.dirs": str(kafka_directory)}
    with KafkaServer(settings) as server, Wire(server) as wire:
        yield Transcript(wire)


@pytest.fixture
def ours() -> Iterator[Transcript]:
    with Broker() as broker, Wire(broker) as wire:
        broker.create_topic(TOPIC)
        yield Transcript(wire)


def test_the_same_requests_get_the_same_responses(kafka: Transcript, ours: Transcript) -> None:
    for scene in SCENES:
        scene(kafka)
        scene(ours)
    assert len(ours.transcript) > 80
    assert ours.transcript == kafka.transcript


def test_a_broker_continues_the_transactions_that_kafka_left(
    kafka: Transcript, kafka_directory: Path, tmp_path: Path
) -> None:
    open_one, ended = TransactionWire(kafka.wire, "open"), TransactionWire(kafka.wire, "ended")
    former, producer = ended.begin(), open_one.begin()
    open_one.add(producer, T0)
    ended.add(former, T0)
    assert ended.end(former)[0] is ErrorCode.none
    before = ended.completed()
    shutil.copytree(kafka_directory, tmp_path / "data")
    with Broker(tmp_path / "data") as broker, Wire(broker) as wire:
        assert TransactionWire(wire, "ended").completed() == before
        assert TransactionWire(wire, "ended").begin() == Producer(before.producer_id, before.producer_epoch + 1)
        open_one = TransactionWire(wire, "open")
        assert [topic.topic for topic in open_one.describe().topics] == [TOPIC]
        assert open_one.end(producer) == (ErrorCode.none, producer._replace(epoch=producer.epoch + 1))
        assert open_one.completed().transaction_state == "CompleteCommit"
        assert TransactionWire(wire, "new").begin().producer_id > max(producer.producer_id, former.producer_id)
