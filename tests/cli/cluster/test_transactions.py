"""`catchment transaction` against a real broker."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from kio.schema.errors import ErrorCode
from tests.broker.handlers.transactional_producer import V1, TransactionalProducer
from tests.broker.handlers.wire import Wire
from tests.cli.conftest import Run

from catchment import Broker

_DEADLINE_S = 150


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # Only so can a transaction be made to hang.
    settings = {"auto.create.topics.enable": False, "transaction.partition.verification.enable": False}
    with Broker(settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap_servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def producer(topic: str, bootstrap_servers: str) -> Producer:
    """A producer with a transaction that is open in partition 1."""
    made = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"job of {topic}", "log_level": 0})
    made.init_transactions(_DEADLINE_S)
    made.begin_transaction()
    made.produce(topic, b"open", partition=1)
    assert made.flush(_DEADLINE_S) == 0
    return made


@pytest.fixture
def hanging(broker: Broker, topic: str) -> Iterator[TransactionalProducer]:
    """A producer that has written to partition 2 without telling its coordinator."""
    with Wire(broker) as wire:
        made = TransactionalProducer(wire, V1, f"forgotten by {topic}")
        made.begin_life()
        assert made.append(topic, b"stray", partition=2) is ErrorCode.none
        yield made


def json_of(run: Run, *arguments: object) -> Any:
    result = run("transaction", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def state_of(run: Run, transactional_id: str, *options: object) -> list[str]:
    found = json_of(run, "list", *options)
    return [one["state"] for one in found if one["transactional_id"] == transactional_id]


def test_transactions_are_listed_by_state_and_age(run: Run, topic: str, producer: Producer) -> None:
    name = f"job of {topic}"
    assert state_of(run, name) == state_of(run, name, "--state", "Ongoing") == ["Ongoing"]
    assert state_of(run, name, "--state", "Empty") == state_of(run, name, "--older-than", 3600) == []
    assert run("transaction", "list").stdout.splitlines()[0] == "transactional id\tcoordinator\tproducer id\tstate"
    producer.commit_transaction(_DEADLINE_S)
    assert state_of(run, name) == ["CompleteCommit"]


def test_an_open_transaction_is_described_with_its_partitions(run: Run, topic: str, producer: Producer) -> None:
    (found,) = json_of(run, "describe", f"job of {topic}")
    assert (found["state"], found["timeout_ms"], found["partitions"]) == ("Ongoing", 60_000, [f"{topic}:1"])
    assert 0 <= found["open_for_s"] < 60
    assert run("transaction", "describe", f"job of {topic}").stdout.splitlines()[1].endswith(f"\t{topic}:1")
    producer.abort_transaction(_DEADLINE_S)
    (ended,) = json_of(run, "describe", f"job of {topic}")
    assert (ended["state"], ended["open_for_s"], ended["partitions"]) == ("CompleteAbort", None, [])


def test_a_partition_tells_where_its_open_transactions_begin(run: Run, topic: str, producer: Producer) -> None:
    (found,) = json_of(run, "producers", topic, 1)
    assert (found["start_offset"], found["last_sequence"]) == (0, 0)
    producer.commit_transaction(_DEADLINE_S)
    assert [one["start_offset"] for one in json_of(run, "producers", topic, 1)] == [None]
    assert json_of(run, "producers", topic, 0) == []


def test_a_transaction_that_its_coordinator_knows_does_not_hang(run: Run, topic: str, producer: Producer) -> None:
    assert json_of(run, "hanging", "--older-than", 0, "-t", topic) == []
    assert len(producer) == 0


def test_a_hanging_transaction_is_found_and_aborted(run: Run, topic: str, hanging: TransactionalProducer) -> None:
    run("produce", topic, "-p", 2, stdin=b"behind\n")
    assert run("consume", topic, "-e").stdout == ""
    assert json_of(run, "hanging", "-t", topic) == []
    found = json_of(run, "hanging", "--older-than", 0)
    (one,) = [one for one in found if one["topic"] == topic]
    assert one == {
        "topic": topic,
        "partition": 2,
        "producer_id": hanging.producer_id,
        "epoch": hanging.epoch,
        "start_offset": 0,
    }
    place = ["--topic", topic, "--partition", 2]
    elsewhere = run("transaction", "abort", *place, "--start-offset", 1)
    assert elsewhere.exit_code == 1
    assert f"no transaction begins at offset 1 of {topic}-2 and is open" in elsewhere.stderr
    assert "Open ones begin at: 0." in elsewhere.stderr
    (aborted,) = json_of(run, "abort", *place, "--start-offset", 0)
    assert aborted == {"topic": topic, "partition": 2, "producer_id": hanging.producer_id, "result": "aborted"}
    assert run("consume", topic, "-e").stdout == "behind\n"
    assert json_of(run, "hanging", "--older-than", 0, "-t", topic) == []


def test_the_transaction_of_an_id_is_aborted_and_its_producer_fenced(run: Run, topic: str, producer: Producer) -> None:
    result = run("transaction", "abort", f"job of {topic}")
    assert result.exit_code == 0, result.stderr
    assert state_of(run, f"job of {topic}", "--state", "Ongoing") == []
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction(_DEADLINE_S)
    assert run("consume", topic, "-e").stdout == ""
    assert run("consume", topic, "-e", "--isolation", "uncommitted").stdout == "open\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "missing"], "there is no transactional id missing\n       `catchment transaction list` shows"),
        (["abort", "missing"], "there is no transactional id missing"),
        (["list", "--state", "Asleep"], "there is no transaction state Asleep\n       The states are Empty, Ongoing"),
        (["producers", "nowhere", "0"], "topic nowhere does not exist"),
        (["producers", "{topic}", "9"], "topic {topic} has no partition 9"),
        (["hanging", "-t", "nowhere"], "topic nowhere does not exist"),
        (["list", "-b", "127.0.0.1:1"], "cannot reach 127.0.0.1:1"),
        (["hanging", "-b", "127.0.0.1:1"], "cannot reach 127.0.0.1:1"),
    ],
)
def test_what_is_not_there_is_named(run: Run, topic: str, arguments: list[str], message: str) -> None:
    result = run("transaction", *(argument.format(topic=topic) for argument in arguments))
    assert result.exit_code == 1
    assert message.format(topic=topic) in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [[], ["-t", "t"], ["-t", "t", "-p", 0], ["id", "-t", "t"], ["id", "-t", "t", "-p", 0, "--start-offset", 0]],
)
def test_an_abort_that_does_not_say_of_what_is_rejected(run: Run, arguments: list[object]) -> None:
    result = run("transaction", "abort", *arguments)
    assert result.exit_code == 2
    assert "give a transactional id, or all of" in result.stderr
