"""Every cell of the transaction coordinator's table: on Catchment, and on an Apache Kafka.

`transaction_table.txt` is the table as Kafka 4.3.1 answers. A row is a situation and a request, with an answer for each sender.
The letters are in `transaction_cells.LETTERS`; `ok+1` grants the next epoch, `ok new` another producer id.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.handlers.wire import Wire
from tests.compat.java_tool import require_java
from tests.compat.transaction_cells import (
    BLOCKED,
    FREE,
    Answers,
    Cell,
    Interview,
    make_internal_topics,
    put_aged_producers,
)

from catchment.bench.peers.kafka import KafkaServer
from catchment.testing.embedded import Broker

_SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "add.partitions.to.txn.retry.backoff.max.ms": "1",
}
_LOG = Path("__transaction_state-0/00000000000000000000.log")
_TABLE = Path(__file__).with_name("transaction_table.txt")
_DIFFERENCES: Mapping[Cell, str] = {
    # Kafka treats the EndTxn of a fenced producer as a retry of its successor's, which did not bump the epoch. A zombie would
    # get the response that its transaction is committed.
    ("CompleteCommit 1", "commit 2", "before"): "F",
    ("CompleteCommit 1", "abort 2", "before"): "F",
    ("CompleteAbort 1", "commit 2", "before"): "F",
    ("CompleteAbort 1", "abort 2", "before"): "F",
    # Kafka fails with an exception of its own.
    ("Empty aged", "init", "older"): "F",
    ("Empty aged", "init", "before"): "F",
    ("Empty aged", "init", "next"): "F",
}
"""Where ours differs, and should."""


def _table() -> Answers:
    cells: Answers = {}
    for line in _TABLE.read_text().splitlines():
        situation, request, answers = line.split(" | ")
        for answer in answers.split(", "):
            sender, _, letters = answer.partition(": ")
            cells[situation, request, sender] = letters
    return cells


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaServer]:
    """A broker that is alone by now: the one that leads the blocked topic was killed, so markers for it cannot be written."""
    require_java()
    directory = tmp_path / "data"
    # A broker that is missed loses its leadership, and Kafka needs no markers for partitions without a leader.
    settings = {**_SETTINGS, "broker.session.timeout.ms": "600000"}
    with KafkaServer({**settings, "log.dirs": str(directory)}) as first:
        with Wire(first) as wire:
            make_internal_topics(wire)
        first.process.stop()
        put_aged_producers(directory / _LOG)
        first.restart()
        with KafkaServer(settings, joins=first) as second:
            admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
            admin.create_topics([NewTopic(BLOCKED, 1, replica_assignment=[[2]])])[BLOCKED].result(30)
            os.kill(second.process.pid, signal.SIGKILL)
        yield first
        # It would wait for the other broker before it stops.
        os.kill(first.process.pid, signal.SIGKILL)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, settings=_SETTINGS) as running:
        running.create_topic(FREE)
        running.create_topic(BLOCKED, settings={"min.insync.replicas": 2})
        with Wire(running) as wire:
            make_internal_topics(wire)
    put_aged_producers(tmp_path / _LOG)
    with Broker(tmp_path, settings=_SETTINGS) as running:
        yield running


def test_every_cell_is_answered_as_the_table_says(broker: Broker) -> None:
    with Wire(broker) as wire:
        assert Interview(wire).answers() == {**_table(), **_DIFFERENCES}


def test_the_table_is_that_of_kafka(kafka: KafkaServer) -> None:
    with Wire(kafka) as wire:
        assert Interview(wire).answers() == _table()
